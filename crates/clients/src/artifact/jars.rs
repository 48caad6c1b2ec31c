//! The jars that a process fetches. Requests for the same jar share one file and, if they come together, one download.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::StreamExt;
use tokio::time::{Instant, timeout};

use super::cache::Cache;
use super::error::Error;
use super::limits::Limits;
use super::request::Request;
use super::sink::{Fetched, Jar, Sink};
use super::source::Keys;
use super::uri::{self, Scheme};
use super::{Body, Opened, open};

/// The jars of a process; clones share them.
#[derive(Clone, Default)]
pub struct Jars(Arc<Shared>);

#[derive(Default)]
struct Shared {
    limits: Limits,
    downloads: Mutex<HashMap<String, Weak<Download>>>,
}

/// The last download of a jar. It is kept while somebody fetches or uploads that jar.
pub(super) type Download = tokio::sync::Mutex<Option<Arrived>>;

pub(super) struct Arrived {
    /// When its source was last asked about it.
    asked: Instant,
    jar: Arc<Jar>,
    validator: Option<String>,
}

impl Jars {
    /// Fetches the jar into a temporary file, after waiting for a turn.
    ///
    /// # Errors
    /// See [`Error`]; anything already written is removed.
    pub async fn fetch(&self, request: &Request) -> Result<Fetched, Error> {
        let wanted = Instant::now();
        let scheme = request.scheme()?;
        let file_name = uri::file_name(&request.url()?);
        let keys = Keys::of(scheme, request)?;
        let within = request.limits.time_max;
        let download = self.download(&keys.shared);
        let turn = async {
            let transfer = self.0.limits.transfer(request).await;
            (transfer, download.lock().await)
        };
        let busy = |_| Error::Busy { uri: request.shown_uri(), within };
        let (transfer, mut last) = timeout(within, turn).await.map_err(busy)?;
        let jar = match &*last {
            // Its source was asked after this request was made.
            Some(Arrived { asked, jar, .. }) if wanted < *asked => Arc::clone(jar),
            _ => {
                let known = last.take();
                let fetch = self.fetch_from(scheme, request, &keys, known);
                let late = |_| Error::TimedOut { uri: request.shown_uri(), within };
                let arrived = timeout(within, fetch).await.map_err(late)??;
                Arc::clone(&last.insert(arrived).jar)
            }
        };
        drop(last);
        Ok(Fetched::new(jar, file_name, (transfer, download)))
    }

    fn download(&self, key: &str) -> Arc<Download> {
        let mut downloads = self.0.downloads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(download) = downloads.get(key).and_then(Weak::upgrade) {
            return download;
        }
        downloads.retain(|_, download| download.strong_count() > 0);
        let download = Arc::new(Download::default());
        downloads.insert(key.to_owned(), Arc::downgrade(&download));
        download
    }

    async fn fetch_from(
        &self,
        scheme: Scheme,
        request: &Request,
        keys: &Keys,
        known: Option<Arrived>,
    ) -> Result<Arrived, Error> {
        let asked = Instant::now();
        let cache = Cache::of(scheme, request, &keys.cached);
        let known = known.and_then(|known| Some((known.jar, known.validator?)));
        let known = match (known, &cache) {
            (Some(known), _) => Some(known),
            (_, Some(cache)) => self.cached(cache, request).await,
            (_, None) => None,
        };
        let validator = known.as_ref().map(|(_, validator)| validator.as_str());
        let body = match open(scheme, request, validator).await? {
            Opened::NotModified => {
                let nothing = || Error::interrupted(request, "there was nothing to compare with");
                let (jar, validator) = known.ok_or_else(nothing)?;
                return Ok(Arrived { asked, jar, validator: Some(validator) });
            }
            Opened::Body(body) => body,
        };
        // The room of a former version is free before that of this one is taken.
        drop(known);
        let validator = body.validator.clone();
        let jar = self.save(body, request).await?;
        if let (Some(cache), Some(validator)) = (&cache, &validator) {
            cache.keep(&jar, validator).await;
        }
        Ok(Arrived { asked, jar: Arc::new(jar), validator })
    }

    async fn cached(&self, cache: &Cache, request: &Request) -> Option<(Arc<Jar>, String)> {
        let copy = cache.find(request).await?;
        let room = self.0.limits.room(Some(copy.jar.size_bytes), request).await;
        Some((Arc::new(copy.jar.holding(room)), copy.validator))
    }

    async fn save(&self, mut body: Body, request: &Request) -> Result<Jar, Error> {
        let limit = request.limits.size_max;
        if body.size_bytes.is_some_and(|size| size > limit.bytes()) {
            return Err(Error::TooLarge { uri: request.shown_uri(), limit });
        }
        let room = self.0.limits.room(body.size_bytes, request).await;
        let mut sink = Sink::create(request, body.size_bytes).await?;
        while let Some(chunk) = body.stream.next().await {
            sink.write(&chunk?).await?;
        }
        Ok(sink.finish().await?.holding(room))
    }
}
