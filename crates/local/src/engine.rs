//! The thread that holds a model's weights, and what it has read so far.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use bowline_llm::{ErrorKind, ModelError, Request, StreamEvent, Usage};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

use crate::gguf::backend;
use crate::vocabulary::Vocabulary;

/// How many tokens are read at a time; between two batches a reader that left is noticed.
const BATCH: usize = 64;

/// What a model is loaded from, and how.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) path: PathBuf,
    pub(crate) window: u32,
    /// How many tokens an answer may have, where a request does not say.
    pub(crate) max_output: Option<u64>,
    pub(crate) threads: Option<usize>,
}

/// One way to talk with a model.
pub(crate) trait Talk: Send + 'static {
    /// Answers one request.
    fn reply(
        &mut self,
        mind: &mut Mind<'_>,
        request: &Request,
        listener: &Listener,
    ) -> Result<(), Halt>;
}

/// The thread.
///
/// When this is dropped nobody listens any more, so the thread ends: after the batch of tokens it is at,
/// or at once while it loads. Where tokio runs, its runtime waits for that on a thread of its own and
/// whoever drops this does not; elsewhere the drop waits.
#[derive(Debug)]
pub(crate) struct Engine {
    jobs: Option<mpsc::Sender<(Request, Listener)>>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the thread; the weights are loaded at the first request.
    pub(crate) fn start(load: Load, mut talk: impl Talk) -> Result<Self, ModelError> {
        let (jobs, requests) = mpsc::channel::<(Request, Listener)>();
        let serve = move || {
            while let Ok((request, listener)) = requests.recv() {
                let model = match load_model(&load, &listener) {
                    Ok(model) => model,
                    Err(Halt::Unheard) => continue,
                    Err(Halt::Failed(error)) => {
                        listener.fail(error);
                        continue;
                    }
                };
                let mut mind = match Mind::new(&model, &load) {
                    Ok(mind) => mind,
                    Err(error) => {
                        listener.fail(error);
                        continue;
                    }
                };
                let mut next = Some((request, listener));
                while let Some((request, listener)) = next.take().or_else(|| requests.recv().ok()) {
                    mind.begin();
                    let reply = AssertUnwindSafe(|| talk.reply(&mut mind, &request, &listener));
                    match catch_unwind(reply) {
                        Ok(Ok(()) | Err(Halt::Unheard)) => {}
                        Ok(Err(Halt::Failed(error))) => listener.fail(error),
                        Err(_) => {
                            let message = "the model failed in a way that was not expected";
                            listener.fail(ModelError::new(ErrorKind::Incomplete, message));
                            // What it has read is unknown now: it is loaded anew.
                            break;
                        }
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("local model".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| {
            ModelError::new(ErrorKind::Overloaded, format!("cannot start a thread: {error}"))
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Puts a request into the queue.
    pub(crate) fn ask(&self, request: Request, listener: Listener) {
        if let Some(jobs) = &self.jobs
            && let Err(mpsc::SendError((_, listener))) = jobs.send((request, listener))
        {
            let message = "the thread of the model has ended";
            listener.fail(ModelError::new(ErrorKind::Incomplete, message));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let Some(thread) = self.thread.take() else { return };
        let wait = move || drop(thread.join());
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(wait)),
            Err(_) => wait(),
        }
    }
}

/// Where the events of one reply go.
#[derive(Debug)]
pub(crate) struct Listener(pub(crate) UnboundedSender<Result<StreamEvent, ModelError>>);

impl Listener {
    pub(crate) fn tell(&self, event: StreamEvent) {
        let _ = self.0.send(Ok(event));
    }

    fn fail(&self, error: ModelError) {
        let _ = self.0.send(Err(error));
    }
}

/// Why a reply stops before its end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// Nobody listens any more.
    Unheard,
    /// It cannot go on.
    Failed(ModelError),
}

impl Halt {
    pub(crate) fn failed(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Failed(ModelError::new(kind, message))
    }
}

/// Loads the weights, as long as somebody waits for them.
fn load_model(load: &Load, listener: &Listener) -> Result<LlamaModel, Halt> {
    let wrong = |what: &str| {
        let message = format!("cannot load {}: {what}", load.path.display());
        Halt::failed(ErrorKind::InvalidRequest, message)
    };
    if listener.0.is_closed() {
        return Err(Halt::Unheard);
    }
    if !load.path.exists() {
        return Err(wrong("it is not there any more"));
    }
    let events = listener.0.clone();
    let params = LlamaModelParams::default().with_progress_callback(move |_| !events.is_closed());
    let model = LlamaModel::load_from_file(backend().map_err(Halt::Failed)?, &load.path, &params);
    model.map_err(|_| match listener.0.is_closed() {
        true => Halt::Unheard,
        false => wrong("it is damaged, too large for the memory, or of an unknown kind"),
    })
}

/// A loaded model and what it has read.
#[derive(Debug)]
pub(crate) struct Mind<'m> {
    pub(crate) model: &'m LlamaModel,
    pub(crate) vocabulary: Vocabulary<'m>,
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    /// What the state is made of; a request that begins the same need not be read again.
    read: Vec<LlamaToken>,
    max_output: Option<u64>,
    /// What the request in hand has taken.
    prompt: usize,
    evaluated: usize,
    output: usize,
}

impl<'m> Mind<'m> {
    fn new(model: &'m LlamaModel, load: &Load) -> Result<Self, ModelError> {
        let threads = load.threads.unwrap_or_else(free_processors);
        let threads = i32::try_from(threads).unwrap_or(1);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(load.window))
            .with_n_batch(BATCH as u32)
            .with_n_ubatch(BATCH as u32)
            .with_n_threads(threads)
            .with_n_threads_batch(threads);
        let context = model.new_context(backend()?, params).map_err(|_| {
            let window = load.window;
            let message = format!("no memory for {window} tokens; set a smaller context_window");
            ModelError::new(ErrorKind::InvalidRequest, message)
        })?;
        let batch = LlamaBatch::new(BATCH, 1);
        Ok(Self {
            model,
            vocabulary: Vocabulary::of(model),
            context,
            batch,
            read: Vec::new(),
            max_output: load.max_output,
            prompt: 0,
            evaluated: 0,
            output: 0,
        })
    }

    /// Begins a request.
    fn begin(&mut self) {
        (self.prompt, self.evaluated, self.output) = (0, 0, 0);
    }

    /// Returns how many tokens the answer may have, as far as the request or the configuration says.
    pub(crate) fn most(&self, request: &Request) -> Option<usize> {
        let most = request.max_output_tokens.or(self.max_output)?;
        Some(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Returns what the request has taken so far. What was read to weigh the tools counts too.
    pub(crate) fn usage(&self) -> Usage {
        let input = self.prompt.max(self.evaluated);
        Usage {
            input: input as u64,
            output: self.output as u64,
            cache_read: Some((input - self.evaluated) as u64),
            ..Usage::default()
        }
    }

    /// Returns how many tokens the model can see at once.
    pub(crate) fn window(&self) -> usize {
        self.context.n_ctx() as usize
    }

    /// Reads tokens, so that what comes next can be asked for. What begins as what was read last is
    /// not read again.
    pub(crate) fn read(&mut self, tokens: &[LlamaToken], listener: &Listener) -> Result<(), Halt> {
        if tokens.is_empty() {
            return Err(Halt::failed(ErrorKind::InvalidRequest, "there is nothing to answer"));
        }
        if tokens.len() >= self.window() {
            let message = format!(
                "the conversation has {} tokens, the model sees {}",
                tokens.len(),
                self.window()
            );
            return Err(Halt::failed(ErrorKind::ContextOverflow, message));
        }
        let same = self.read.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        // The last one is read again for what comes after it.
        let mut kept = same.min(tokens.len().saturating_sub(1));
        if !self.forget_from(kept) {
            kept = 0;
            self.context.clear_kv_cache();
        }
        self.read.truncate(kept);
        self.prompt = self.prompt.max(tokens.len());
        self.evaluated += tokens.len() - kept;
        for chunk in tokens.get(kept..).unwrap_or_default().chunks(BATCH) {
            self.advance(chunk, listener)?;
        }
        Ok(())
    }

    /// Forgets what comes after some tokens; tells whether the model can.
    fn forget_from(&mut self, kept: usize) -> bool {
        let from = u32::try_from(kept).ok();
        matches!(self.context.clear_kv_cache_seq(Some(0), from, None), Ok(true))
    }

    fn advance(&mut self, tokens: &[LlamaToken], listener: &Listener) -> Result<(), Halt> {
        if listener.0.is_closed() {
            return Err(Halt::Unheard);
        }
        let failed = |error: String| {
            Halt::failed(ErrorKind::Incomplete, format!("the model failed: {error}"))
        };
        self.batch.clear();
        for (n, token) in tokens.iter().enumerate() {
            let position = i32::try_from(self.read.len() + n).unwrap_or(i32::MAX);
            let is_last = n + 1 == tokens.len();
            self.batch
                .add(*token, position, &[0], is_last)
                .map_err(|error| failed(error.to_string()))?;
        }
        if let Err(error) = self.context.decode(&mut self.batch) {
            // What is left of the batch is unknown.
            self.read.clear();
            self.context.clear_kv_cache();
            return Err(failed(error.to_string()));
        }
        self.read.extend_from_slice(tokens);
        Ok(())
    }

    /// Returns the natural logarithms of the probabilities of some next tokens.
    pub(crate) fn likelihoods(&self, tokens: &[LlamaToken]) -> Vec<f32> {
        let logits = self.context.get_logits_ith(self.batch.n_tokens() - 1);
        let greatest = logits.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = logits.iter().map(|logit| (logit - greatest).exp()).sum();
        let of = |token: &LlamaToken| {
            let logit = usize::try_from(token.0).ok().and_then(|n| logits.get(n));
            logit.map_or(f32::MIN, |logit| logit - greatest - sum.ln())
        };
        tokens.iter().map(of).collect()
    }

    /// Chooses the next token.
    pub(crate) fn choose(&self, sampler: &mut LlamaSampler) -> Result<LlamaToken, Halt> {
        let mut candidates = self.context.token_data_array_ith(self.batch.n_tokens() - 1);
        candidates.apply_sampler(sampler);
        let chosen = candidates.selected.and_then(|n| candidates.data.get(n).copied());
        // Where a grammar leaves nothing, a sampler still chooses: something impossible.
        let chosen = chosen.filter(|chosen| chosen.logit().is_finite());
        let token = chosen.map(|chosen| chosen.id());
        token.filter(|token| sampler.try_accept(*token).is_ok()).ok_or_else(|| {
            Halt::failed(ErrorKind::Incomplete, "the model has no token that may come next")
        })
    }

    /// Writes until `write` is done or the model has nothing more to say.
    ///
    /// `write` gets the bytes of each token and returns whether to go on.
    pub(crate) fn write(
        &mut self,
        sampler: &mut LlamaSampler,
        most: usize,
        listener: &Listener,
        mut write: impl FnMut(&[u8]) -> bool,
    ) -> Result<Stop, Halt> {
        for _ in 0..most {
            let token = self.choose(sampler)?;
            self.output += 1;
            if self.vocabulary.is_end(token) {
                return Ok(Stop::Said);
            }
            if !write(&self.vocabulary.bytes(token)) {
                return Ok(Stop::Wanted);
            }
            if self.read.len() + 1 >= self.window() {
                break;
            }
            self.advance(&[token], listener)?;
        }
        Ok(Stop::Length)
    }
}

/// Why writing stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The model had said all.
    Said,
    /// Whoever read had enough.
    Wanted,
    /// It was as long as it may be.
    Length,
}

/// Returns how many processors are not busy. llama.cpp's threads wait for each other without
/// sleeping, so one too many is much slower than one too few.
fn free_processors() -> usize {
    let all = thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
    // More than physical cores do not help; eight are enough for what fits into a laptop.
    all.saturating_sub(load.round() as usize).clamp(1, 8)
}
