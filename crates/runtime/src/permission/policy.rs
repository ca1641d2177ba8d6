//! The rules of one agent, held against one thing after the other.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use bowline_agent::tool::Tool as _;
use bowline_tools::process::Processes;
use bowline_tools::{Bash, Read};

use super::approvals::Approvals;
use super::call::{Call, Can, Program, Touch};
use super::command::Fit;
use super::judgement::{Decision, Judgement, Segment, Why};
use super::layers::{Entry, Kind};
use super::places::{Places, Special};
use super::rule::{About, Host, Rule};
use super::seen::Seen;
use super::suggest;
use crate::config::{Mode, SandboxConfig, SandboxProfile};

/// The rules of one agent.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The rules, the highest layer first.
    pub(crate) entries: Arc<[Entry]>,
    pub(crate) mode: Mode,
    pub(crate) sandbox: SandboxConfig,
    pub(crate) places: Arc<Places>,
    /// What a person has allowed for the session.
    pub(crate) approvals: Arc<Approvals>,
    /// The tools that the configuration makes.
    pub(crate) configured: Arc<BTreeSet<String>>,
    /// Whether somebody is there to be asked.
    pub(crate) is_attended: bool,
    /// Whether commands can be confined on this system.
    pub(crate) can_confine: CanConfine,
}

/// Whether commands can be confined.
#[derive(Debug, Clone)]
pub(crate) enum CanConfine {
    /// It is known.
    Known(bool),
    /// Whoever starts commands finds out when it first matters: that takes a process.
    Ask(Arc<Processes>),
}

impl CanConfine {
    fn get(&self) -> bool {
        match self {
            Self::Known(can) => *can,
            Self::Ask(processes) => processes.confines(),
        }
    }
}

/// Why things are allowed beyond the sandbox in `auto`.
const OFF: &str = "the sandbox is off";

/// What the rules say of one thing.
struct Ruled {
    decision: Decision,
    why: Why,
}

/// How a rule looks at a thing: one that allows must be sure of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Sure,
    Wary,
}

impl Policy {
    /// Returns the rules, the highest layer first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns what happens where no rule says anything.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Says whether commands can be confined on this system; without that they are taken to be.
    #[must_use]
    pub fn with_confinement(self, can_confine: bool) -> Self {
        Self { can_confine: CanConfine::Known(can_confine), ..self }
    }

    pub(super) fn judge(&self, call: &Call) -> Judgement {
        let mut segments: Vec<Segment> = Vec::new();
        for touch in &call.touches {
            let Some(segment) = self.segment(&call.tool, touch) else { continue };
            if !segments.contains(&segment) {
                segments.push(segment);
            }
        }
        Judgement::of(segments)
    }

    /// Says why the text of a file is not told to a model that has not asked for it. Of what holds secrets
    /// no mode is enough to tell it, only a rule that names it.
    pub(crate) fn keeps_untold(&self, path: &Path) -> Option<String> {
        let seen = self.places.see(path);
        let special = self.places.secret(&seen);
        let (decision, why) = self.decide(Read::NAME, &Touch::Read(seen))?;
        match (why, special) {
            (Why::Mode { .. }, Some(Special { name, what })) => Some(format!("{name} is {what}")),
            (why, _) => (decision != Decision::Allow).then(|| why.to_string()),
        }
    }

    /// Says what is decided about one thing; `None` if there is nothing to say.
    fn segment(&self, tool: &str, touch: &Touch) -> Option<Segment> {
        let (what, by) = name(tool, touch);
        let through = match touch {
            Touch::Program { program, .. } => program.run.through.clone(),
            _ => Vec::new(),
        };
        let (decision, why) = self.decide(tool, touch)?;
        let allowed_by =
            by.filter(|_| decision != Decision::Allow && matches!(why, Why::Mode { .. }));
        let stays_inside = decision != Decision::Ask || self.stays_inside(tool, touch);
        Some(Segment { what, through, decision, why, allowed_by, stays_inside })
    }

    /// Tells whether a thing stays within the sandbox, so that the mode `auto` would let it be.
    fn stays_inside(&self, tool: &str, touch: &Touch) -> bool {
        let auto = Self { mode: Mode::Auto, ..self.clone() };
        let by_auto = auto.by_mode(tool, touch, self.special(tool, touch).as_ref());
        by_auto.is_none_or(|(decision, _)| decision == Decision::Allow)
    }

    fn decide(&self, tool: &str, touch: &Touch) -> Option<(Decision, Why)> {
        let special = self.special(tool, touch);
        let fits = |rule: &Rule, look| self.fit(rule, tool, touch, look);
        let ruled = self.ruled(&fits, special.as_ref(), self.is_kept(touch));
        if let Some(Ruled { decision, why }) = ruled {
            let decision = self.as_mode_has_it(decision, touch);
            if let Some(decision) = decision {
                let is_said = !is_named(touch) || decision != Decision::Allow;
                return is_said.then_some((decision, why));
            }
        }
        let (decision, because) = self.by_mode(tool, touch, special.as_ref())?;
        Some((decision, Why::Mode { mode: self.mode.as_str(), because }))
    }

    fn fit(&self, rule: &Rule, tool: &str, touch: &Touch, look: Look) -> Fit {
        match fit(rule, tool, touch, look) {
            // Whoever names an address knows which host it is.
            Fit::Maybe if matches!(touch, Touch::Host(host) if self.has_named(host)) => Fit::No,
            fit => fit,
        }
    }

    /// Tells whether the sandbox keeps from a thing what rules deny, whatever it proves to be.
    fn is_kept(&self, touch: &Touch) -> bool {
        match touch {
            Touch::Adrift { program, .. } => self.is_confined() && !self.is_outside(program),
            _ => false,
        }
    }

    /// Returns what the rules say; one that allows something special must name it, and one that denies what
    /// is kept anyway must be sure.
    fn ruled(
        &self,
        fit: &dyn Fn(&Rule, Look) -> Fit,
        special: Option<&Special>,
        is_kept: bool,
    ) -> Option<Ruled> {
        let wary = |entry: &&Entry| fit(&entry.rule, Look::Wary) == Fit::Yes;
        let allows = |rule: &Rule| {
            fit(rule, Look::Sure) == Fit::Yes
                && special.is_none_or(|special| rule.names(&special.name))
        };
        let managed = self.layer(Kind::Managed, fit, &allows);
        let denies = || self.entries.iter().filter(|entry| entry.decision == Decision::Deny);
        let is_final = managed.as_ref().is_some_and(|ruled| ruled.decision == Decision::Allow);
        // What an agent is denied for its own sake nobody gives back.
        let counts =
            |entry: &&Entry| !is_final || entry.is_of_agent || entry.layer == Kind::Managed;
        if let Some(entry) = denies().filter(counts).find(wary) {
            return Some(Ruled { decision: Decision::Deny, why: entry.why(false) });
        }
        let perhaps = |entry: &&Entry| !is_kept && fit(&entry.rule, Look::Wary) == Fit::Maybe;
        if let Some(entry) = denies().filter(counts).find(perhaps) {
            return Some(Ruled { decision: Decision::Ask, why: entry.why(true) });
        }
        if managed.is_some() {
            return managed;
        }
        Kind::BELOW_MANAGED.into_iter().find_map(|kind| self.layer(kind, fit, &allows))
    }

    /// Returns what one layer says beside what it denies.
    fn layer(
        &self,
        kind: Kind,
        fit: &dyn Fn(&Rule, Look) -> Fit,
        allows: &dyn Fn(&Rule) -> bool,
    ) -> Option<Ruled> {
        if kind == Kind::Session {
            let rules = self.approvals.rules();
            let rule = rules.iter().find(|rule| allows(rule))?.to_string();
            let why = Why::Rule {
                rule,
                layer: kind,
                place: None,
                reason: None,
                perhaps: false,
                asks: false,
            };
            return Some(Ruled { decision: Decision::Allow, why });
        }
        let own = || self.entries.iter().filter(|entry| entry.layer == kind);
        let asks = |entry: &&Entry| {
            entry.decision == Decision::Ask && fit(&entry.rule, Look::Wary) >= Fit::Maybe
        };
        if let Some(entry) = own().find(asks) {
            let perhaps = fit(&entry.rule, Look::Wary) == Fit::Maybe;
            return Some(Ruled { decision: Decision::Ask, why: entry.why(perhaps) });
        }
        let entry = own().find(|entry| entry.decision == Decision::Allow && allows(&entry.rule))?;
        Some(Ruled { decision: Decision::Allow, why: entry.why(false) })
    }

    /// Returns what becomes of a decision of the rules in this mode; `None` if it does not count.
    fn as_mode_has_it(&self, decision: Decision, touch: &Touch) -> Option<Decision> {
        match (decision, self.mode) {
            (Decision::Ask, Mode::Bypass) => Some(Decision::Allow),
            (Decision::Ask, Mode::Deny) => Some(Decision::Deny),
            (Decision::Ask, Mode::Auto) if !self.is_attended => Some(Decision::Deny),
            // To plan is to look, whatever else is allowed.
            (Decision::Allow, Mode::Plan) => {
                let acts = matches!(
                    touch,
                    Touch::Program { .. } | Touch::Doubt(_) | Touch::Write(_) | Touch::Survival
                );
                (!acts).then_some(decision)
            }
            (Decision::Allow | Decision::Ask | Decision::Deny, _) => Some(decision),
        }
    }

    /// Returns what is special about a file that is touched.
    fn special(&self, tool: &str, touch: &Touch) -> Option<Special> {
        match touch {
            Touch::Read(seen) | Touch::Named(seen, _) => self.places.secret(seen),
            Touch::Write(seen) if !is_ours(tool) => self.places.protected(seen),
            Touch::Write(_)
            | Touch::Program { .. }
            | Touch::Doubt(_)
            | Touch::Adrift { .. }
            | Touch::Host(_)
            | Touch::Agent(_)
            | Touch::Survival
            | Touch::Tool { .. } => None,
        }
    }

    /// Returns what the mode says where no rule does, and what it is that it says it of.
    fn by_mode(
        &self,
        tool: &str,
        touch: &Touch,
        special: Option<&Special>,
    ) -> Option<(Decision, String)> {
        if self.mode == Mode::Bypass {
            return (!is_named(touch))
                .then(|| (Decision::Allow, "everything is allowed".to_owned()));
        }
        let asks = match self.mode {
            Mode::Ask | Mode::AcceptEdits => Decision::Ask,
            Mode::Plan | Mode::Auto | Mode::Deny | Mode::Bypass => Decision::Deny,
        };
        let allowed = |because: &str| Some((Decision::Allow, because.to_owned()));
        match touch {
            Touch::Read(_) | Touch::Named(..) => match special {
                Some(Special { name, what }) => Some((asks, format!("{name} is {what}"))),
                None if matches!(touch, Touch::Named(..)) => None,
                None => allowed("reading is allowed"),
            },
            Touch::Write(seen) => Some(self.write_by_mode(tool, seen, special, asks)),
            Touch::Program { program, is_inside } => {
                Some(self.program_by_mode(program, *is_inside, asks))
            }
            Touch::Doubt(what) => Some(match self.is_confined() {
                true if self.mode == Mode::Auto => {
                    (Decision::Allow, format!("{what}, but it stays in the sandbox"))
                }
                _ if self.is_off() => (Decision::Allow, format!("{what}, but {OFF}")),
                _ => (asks, what.clone()),
            }),
            Touch::Adrift { .. } => None,
            Touch::Host(_) if self.mode == Mode::Auto && self.configured.contains(tool) => {
                allowed(CONFIGURED)
            }
            Touch::Host(_) if self.is_off() => allowed(OFF),
            Touch::Host(host) if self.mode == Mode::Auto => Some(match self.reaches(host) {
                true => (Decision::Allow, "the sandbox has network".to_owned()),
                false => (asks, "the sandbox has no network".to_owned()),
            }),
            Touch::Host(_) => Some((asks, "it talks to a host".to_owned())),
            Touch::Agent(_) => allowed("delegating is allowed"),
            Touch::Survival => Some((asks, "it would go on when bowline ends".to_owned())),
            Touch::Tool { is_harmless: true } => allowed("it changes nothing"),
            Touch::Tool { is_harmless: false } if self.mode == Mode::Auto => allowed(CONFIGURED),
            Touch::Tool { is_harmless: false } => {
                Some((asks, "what it changes is not known".to_owned()))
            }
        }
    }

    fn write_by_mode(
        &self,
        tool: &str,
        seen: &Seen,
        special: Option<&Special>,
        asks: Decision,
    ) -> (Decision, String) {
        let may_edit = matches!(self.mode, Mode::AcceptEdits | Mode::Auto);
        let is_read_only = self.profile() == SandboxProfile::ReadOnly && self.mode == Mode::Auto;
        if let Some(Special { name, what }) = special {
            return (asks, format!("{name} is protected: {what}"));
        }
        if self.is_off() {
            return (Decision::Allow, OFF.to_owned());
        }
        if !is_ours(tool) && !self.places.holds(seen) {
            return (asks, "it is outside the workspace".to_owned());
        }
        match may_edit && (!is_read_only || is_ours(tool)) {
            true => (Decision::Allow, "it is in the workspace".to_owned()),
            false if is_read_only => (asks, "the sandbox is read-only".to_owned()),
            false => (asks, "it writes".to_owned()),
        }
    }

    fn program_by_mode(
        &self,
        program: &Program,
        is_inside: bool,
        asks: Decision,
    ) -> (Decision, String) {
        let is_outside = self.is_outside(program);
        if self.mode == Mode::Auto {
            return match (self.is_confined(), is_outside) {
                (true, false) => (Decision::Allow, "it stays in the sandbox".to_owned()),
                (true, true) => (asks, "it runs outside the sandbox".to_owned()),
                (false, _) if self.is_off() => (Decision::Allow, OFF.to_owned()),
                (false, _) => (asks, "there is no sandbox to keep it in".to_owned()),
            };
        }
        if program.is_harmless && !is_outside {
            // What a repository says of itself may name programs: without a sandbox they could do anything.
            if program.run.name() == Some("git") && !self.is_confined() {
                return (asks, "the repository may have git run programs".to_owned());
            }
            if is_inside || self.mode == Mode::Plan {
                return (Decision::Allow, "it only looks".to_owned());
            }
            return (asks, "it looks outside the workspace".to_owned());
        }
        (asks, "it is a command".to_owned())
    }

    pub(super) fn profile(&self) -> SandboxProfile {
        self.sandbox.profile.unwrap_or_default()
    }

    /// Tells whether the user wants what is done without being asked to have no bounds.
    fn is_off(&self) -> bool {
        self.mode == Mode::Auto && self.profile() == SandboxProfile::Off
    }

    /// Tells whether commands are confined unless something else is said of them.
    pub(super) fn is_confined(&self) -> bool {
        let is_wanted = self.mode != Mode::Bypass && self.profile() != SandboxProfile::Off;
        is_wanted && self.can_confine.get()
    }

    /// Tells whether a program is to run outside the sandbox.
    pub(super) fn is_outside(&self, program: &Program) -> bool {
        let mut rules = self.sandbox.outside.iter().flatten();
        rules.any(|rule| match &rule.about {
            About::Command(None) => true,
            About::Command(Some(pattern)) => pattern.allows(&program.spelt) == Fit::Yes,
            About::Read(_)
            | About::Write(_)
            | About::Host(_)
            | About::Agent(_)
            | About::Survival
            | About::Tool(_) => false,
        })
    }

    /// Tells whether a host may be reached, and is named by a rule or by the sandbox as just this host.
    pub(super) fn names_host(&self, host: &str) -> bool {
        let decided = || self.decide("fetch", &Touch::Host(host.to_owned()));
        self.has_named(host) && decided().is_some_and(|(decision, _)| decision == Decision::Allow)
    }

    /// Tells whether a rule that allows, or the sandbox, names just this host.
    fn has_named(&self, host: &str) -> bool {
        let names = |rule: &Rule| matches!(&rule.about, About::Host(Some(known)) if known.is(host));
        let allowed = self.entries.iter().filter(|entry| entry.decision == Decision::Allow);
        allowed.map(|entry| &entry.rule).any(names)
            || self.approvals.rules().iter().any(names)
            || self.sandbox.hosts.iter().flatten().any(|known| known.is(host))
    }

    /// Returns the hosts that are not reached without more ado; `None` for all of them.
    pub(super) fn hosts_with_questions(&self) -> Vec<Option<&Host>> {
        let stopping = self.entries.iter().filter(|entry| entry.decision != Decision::Allow);
        let hosts = stopping.filter_map(|entry| match &entry.rule.about {
            About::Host(host) => Some(host.as_ref()),
            _ => None,
        });
        hosts.collect()
    }

    /// Tells whether no rule keeps a command from a host, or asks about it.
    pub(super) fn lets_reach(&self, host: &str) -> bool {
        let touch = Touch::Host(host.to_owned());
        let ruled = self.ruled(&|rule, look| self.fit(rule, Bash::NAME, &touch, look), None, false);
        ruled.is_none_or(|ruled| ruled.decision == Decision::Allow)
    }

    /// Tells whether the sandbox lets a host be reached.
    fn reaches(&self, host: &str) -> bool {
        let mut hosts = self.sandbox.hosts.iter().flatten();
        self.sandbox.network == Some(true) || hosts.any(|known: &Host| known.fits(host))
    }
}

const CONFIGURED: &str = "the user has configured it";

/// The tools that keep what agents know in places of their own.
const OURS: [&str; 2] = ["write_note", "shared_state_set"];

fn is_ours(tool: &str) -> bool {
    OURS.contains(&tool)
}

/// Tells whether a thing is merely named: that is spoken of only where something stands against it.
fn is_named(touch: &Touch) -> bool {
    matches!(touch, Touch::Named(..) | Touch::Adrift { .. })
}

/// Says whether a rule is about a thing that a tool touches.
fn fit(rule: &Rule, tool: &str, touch: &Touch, look: Look) -> Fit {
    let yes = |is_so: bool| if is_so { Fit::Yes } else { Fit::No };
    let path = |pattern: &super::path::PathPattern, seen: &Seen| match look {
        Look::Sure => yes(seen.all(|form| pattern.fits(form))),
        Look::Wary => yes(seen.any(|form| pattern.fits(form))),
    };
    match (&rule.about, touch) {
        // Of everything nothing is said for being named.
        (
            About::Tool(_) | About::Read(None) | About::Write(None),
            Touch::Named(..) | Touch::Adrift { .. },
        ) => Fit::No,
        // Who allows a tool does not think of what it leaves for good.
        (About::Tool(_), Touch::Survival) if look == Look::Sure => Fit::No,
        (About::Tool(pattern), _) => yes(pattern.fits(tool)),
        (About::Command(None), Touch::Program { .. } | Touch::Doubt(_)) => Fit::Yes,
        (About::Command(Some(pattern)), Touch::Program { program, .. }) => match look {
            Look::Sure => pattern.allows(&program.spelt),
            Look::Wary => pattern.concerns(&program.spelt),
        },
        // What is not understood may be anything.
        (About::Command(Some(_)), Touch::Doubt(_)) => match look {
            Look::Sure => Fit::No,
            Look::Wary => Fit::Maybe,
        },
        (About::Read(None), Touch::Read(_)) => Fit::Yes,
        (About::Read(Some(pattern)), Touch::Read(seen) | Touch::Named(seen, _)) => {
            path(pattern, seen)
        }
        (About::Write(None), Touch::Write(_)) => Fit::Yes,
        (About::Write(Some(pattern)), Touch::Write(seen)) => path(pattern, seen),
        // That a file may be written says nothing of whether a command may read it.
        (About::Write(Some(pattern)), Touch::Named(seen, Can::Write)) => match look {
            Look::Sure => Fit::No,
            Look::Wary => path(pattern, seen),
        },
        // It may be any file.
        (About::Read(Some(_)), Touch::Adrift { .. })
        | (About::Write(Some(_)), Touch::Adrift { can: Can::Write, .. }) => match look {
            Look::Sure => Fit::No,
            Look::Wary => Fit::Maybe,
        },
        (About::Host(None), Touch::Host(_)) => Fit::Yes,
        (About::Host(Some(pattern)), Touch::Host(host)) => match look {
            Look::Wary if pattern.may_be(host) => Fit::Maybe,
            Look::Sure | Look::Wary => yes(pattern.fits(host)),
        },
        (About::Agent(None), Touch::Agent(_)) => Fit::Yes,
        (About::Agent(Some(pattern)), Touch::Agent(name)) => yes(pattern.fits(name)),
        (About::Survival, Touch::Survival) => Fit::Yes,
        (
            About::Command(_)
            | About::Read(_)
            | About::Write(_)
            | About::Host(_)
            | About::Agent(_)
            | About::Survival,
            _,
        ) => Fit::No,
    }
}

/// Returns what a thing is called, and the rule that allows exactly it.
fn name(tool: &str, touch: &Touch) -> (String, Option<String>) {
    let same = |rule: String| (rule.clone(), Some(rule));
    match touch {
        Touch::Program { program, .. } => {
            (format!("bash({})", program.run.text.trim()), suggest::exactly(&program.run))
        }
        Touch::Doubt(_) => ("bash".to_owned(), None),
        Touch::Adrift { program, .. } => (format!("bash({})", program.run.text.trim()), None),
        Touch::Read(seen) | Touch::Named(seen, _) => {
            let path = seen.real();
            (format!("read({})", suggest::escaped(path)), suggest::of_path("read", path))
        }
        Touch::Write(seen) => {
            let path = seen.real();
            (format!("write({})", suggest::escaped(path)), suggest::of_path("write", path))
        }
        Touch::Host(host) => (format!("net({host})"), suggest::of_host(host)),
        Touch::Agent(name) => (format!("agent({name})"), suggest::of_agent(name)),
        Touch::Survival => same("survive".to_owned()),
        Touch::Tool { .. } => same(tool.to_owned()),
    }
}
