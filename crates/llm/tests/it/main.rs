//! The crate through its doors: recorded traffic, requests, a server on loopback, retries.

#[cfg(test)]
mod exchange;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod loopback;
#[cfg(test)]
mod odd_answers;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod prefix;
#[cfg(test)]
mod rate_limit;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod scripted;
