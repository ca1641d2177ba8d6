use bowline_llm::sse::{Decoder, TooLong};

/// How a stream is cut into pieces changes nothing of its events, nor of whether one is too long.
///
/// The first bytes say how it is cut and how long an event may be.
pub fn sse(data: &[u8]) {
    let Some((&[limit, ref cuts @ ..], stream)) = data.split_first_chunk::<4>() else { return };
    let limit = usize::from(limit) * 4;
    let whole = events(limit, std::iter::once(stream));
    assert_eq!(whole, events(limit, stream.chunks(1)), "byte by byte");
    assert_eq!(whole, events(limit, pieces(stream, cuts)), "in pieces");
}

/// What was found in a stream, and how it ended.
type Found = (Vec<(String, String)>, Result<(), TooLong>);

fn events<'a>(limit: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Found {
    let mut decoder = Decoder::with_limit(limit);
    let mut found = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => found.push((event.name.to_owned(), event.data.to_owned())),
                Ok(None) => break,
                Err(error) => return (found, Err(error)),
            }
        }
    }
    (found, Ok(()))
}

/// Cuts a stream into pieces of these lengths, again and again.
fn pieces<'a>(mut stream: &'a [u8], lengths: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = lengths.iter().copied().cycle();
    std::iter::from_fn(move || {
        let length = usize::from(lengths.next()?).clamp(1, stream.len().max(1));
        let (piece, rest) = stream.split_at_checked(length)?;
        stream = rest;
        Some(piece)
    })
}
