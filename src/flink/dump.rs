//! Answers as they are, for people who look for a fault.

use serde_json::Value;

use super::client::Client;
use super::error::Error;

impl Client {
    /// The answer to `GET path`, whatever is in it.
    pub async fn dump(&self, path: &str) -> Result<Value, Error> {
        self.get(path.to_owned()).await
    }
}
