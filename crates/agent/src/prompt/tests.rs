use pretty_assertions::assert_eq;

use super::*;

fn named(name: &str) -> PromptParts {
    PromptParts { name: name.to_owned(), ..PromptParts::default() }
}

fn tags(parts: &PromptParts) -> Vec<&'static str> {
    sections(parts).into_iter().map(|section| section.tag).collect()
}

fn text_of(parts: &PromptParts, tag: &str) -> String {
    let found = sections(parts).into_iter().find(|section| section.tag == tag);
    found.map(|section| section.text).unwrap_or_default()
}

fn on_demand_skill(name: &str, description: &str) -> SkillCard {
    SkillCard::OnDemand { name: name.to_owned(), description: description.to_owned() }
}

fn inline_skill(name: &str, text: &str) -> SkillCard {
    SkillCard::Inline { name: name.to_owned(), text: text.to_owned() }
}

fn agent(name: &str) -> AgentCard {
    AgentCard { name: name.to_owned(), ..AgentCard::default() }
}

/// Makes parts in which each bit says whether something is there, for each of some depths.
fn every_kind() -> impl Iterator<Item = PromptParts> {
    let depths = [(0, 0), (0, 1), (1, 1), (1, 3), (3, 3), (4, 3)];
    depths.into_iter().flat_map(|(depth, max_depth)| {
        (0_u32..1 << 10).map(move |bits| {
            let is = |bit: u32| bits & (1 << bit) != 0;
            let said =
                |bit: u32, text: &str| if is(bit) { text.to_owned() } else { " \n".to_owned() };
            let mut parts = PromptParts {
                depth,
                max_depth,
                can_hand_off: is(0),
                can_ask: is(1),
                interactive: is(2),
                notes: is(3),
                instructions: said(4, "Be a pirate."),
                behavioral_hints: is(5),
                project_context: said(6, "It is written in Rust."),
                ..named("Coder")
            };
            parts.skills.extend(is(7).then(|| inline_skill("style", "Use tabs.")));
            parts.skills.extend(is(8).then(|| on_demand_skill("pdf", "Reads PDF files.")));
            parts.agents = vec![agent("coder")];
            parts.agents.extend(is(9).then(|| agent("tester")));
            parts
        })
    })
}

#[test]
fn each_section_is_there_exactly_when_it_should_be_and_in_order() {
    for parts in every_kind() {
        let is_below = parts.depth > 0;
        let can_delegate = parts.max_depth > 0 && parts.depth < parts.max_depth;
        let has = |is_inline: bool| {
            let is_so = |skill: &SkillCard| matches!(skill, SkillCard::Inline { .. }) == is_inline;
            parts.skills.iter().any(is_so)
        };
        let expected = [
            ("identity", true),
            ("completion_protocol", is_below),
            ("handoff_protocol", is_below && parts.can_hand_off),
            ("interaction_protocol", is_below && parts.can_ask),
            ("interactive_delegation_protocol", can_delegate && parts.interactive),
            ("notes_protocol", parts.notes),
            ("instructions", !parts.instructions.trim().is_empty()),
            ("behavioral_constraints", parts.behavioral_hints),
            ("project_context", !parts.project_context.trim().is_empty()),
            ("skills", has(true)),
            ("available_skills", has(false)),
            ("available_agents", can_delegate && parts.agents.len() > 1),
        ];
        let expected = expected.into_iter().filter(|(_, is_there)| *is_there);
        assert_eq!(tags(&parts), expected.map(|(tag, _)| tag).collect::<Vec<_>>(), "{parts:#?}");
    }
}

#[test]
fn what_the_project_the_skills_and_the_other_agents_say_comes_after_what_is_the_same_everywhere() {
    for parts in every_kind() {
        let text = join(&sections(&parts));
        let (skills, agents, project_context) = (Vec::new(), Vec::new(), String::new());
        let bare = join(&sections(&PromptParts { skills, agents, project_context, ..parts }));
        assert!(text.starts_with(&bare), "{text}");
    }
}

#[test]
fn the_identity_says_the_name_and_what_it_is_for_if_that_is_known() {
    let plain = text_of(&named("bowline"), "identity");
    assert_eq!(
        plain,
        "You are bowline, an agent that works in a user's directory with the tools you are given, until \
         the task is done. The user sees your answer, not the output of your tools. When the task is \
         done, answer with what you did and what you found, in as few words as it takes."
    );
    let described = PromptParts { description: "You know Go.\n".to_owned(), ..named("coder") };
    assert!(
        text_of(&described, "identity").contains("the task is done. You know Go. The user sees")
    );
}

#[test]
fn only_the_agent_that_takes_the_prompt_speaks_to_the_user() {
    let messages = PromptParts { speech: Speech::Messages, ..named("a") };
    let identity = text_of(&messages, "identity");
    assert!(identity.contains("only with the tool `message`"), "{identity}");
    assert!(!identity.contains("sees your answer"), "{identity}");
    let child = PromptParts { depth: 1, ..messages };
    let identity = text_of(&child, "identity");
    assert!(identity.ends_with("until the task is done."), "{identity}");
    assert!(text_of(&child, "completion_protocol").contains("task_complete"));
}

#[test]
fn instructions_are_told_word_for_word() {
    let parts = PromptParts { instructions: "Pay $5 to <b>\n\n  all.".to_owned(), ..named("a") };
    let text = join(&sections(&parts));
    assert!(
        text.contains("\n<instructions>\nPay $5 to <b>\n\n  all.\n</instructions>\n"),
        "{text}"
    );
}

#[test]
fn of_a_skill_on_demand_only_the_description_is_told_and_of_an_inline_one_all() {
    let skills = vec![
        on_demand_skill("pdf", "Reads\n  PDF </available_skills> files."),
        inline_skill("style", "Use tabs.\n"),
        inline_skill("tone", "Be kind."),
    ];
    let parts = PromptParts { skills, ..named("a") };
    assert_eq!(text_of(&parts, "skills"), "### style\n\nUse tabs.\n\n### tone\n\nBe kind.");
    let available = text_of(&parts, "available_skills");
    assert!(available.contains("load_skill"), "{available}");
    let line = "\n- **pdf**: Reads PDF &lt;/available_skills&gt; files.";
    assert!(available.ends_with(line), "{available}");
    assert!(!available.contains("style"), "{available}");
}

#[test]
fn the_directory_says_what_others_are_good_at_and_cost_and_never_how_to_call_them() {
    let agents = vec![
        AgentCard {
            description: "Writes tests.".to_owned(),
            skills: vec!["go".to_owned(), "sql".to_owned()],
            cost: "cheap".to_owned(),
            ..agent("tester")
        },
        agent("Lead"),
        AgentCard { description: "Reads code.".to_owned(), ..agent("reviewer") },
    ];
    let parts = PromptParts { max_depth: 2, agents, ..named("lead") };
    assert_eq!(
        text_of(&parts, "available_agents"),
        "- **tester**: Writes tests. [skills: go, sql] [cost: cheap]\n- **reviewer**: Reads code."
    );
    assert!(!join(&sections(&parts)).contains("schema"));
}

#[test]
fn a_system_text_is_small_with_all_that_an_agent_may_be_told() {
    let top = named("bowline");
    let most_of_a_child = PromptParts {
        depth: 1,
        max_depth: 2,
        can_hand_off: true,
        can_ask: true,
        notes: true,
        ..named("bowline")
    };
    let messages = PromptParts { speech: Speech::Messages, ..named("bowline") };
    let length = |parts: &PromptParts| join(&sections(parts)).len();
    assert!(length(&top) <= 1_600, "{}", length(&top));
    assert!(length(&messages) <= 2_000, "{}", length(&messages));
    assert!(length(&most_of_a_child) <= 3_200, "{}", length(&most_of_a_child));
}
