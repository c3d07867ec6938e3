use std::time::Duration;

use psp_server::protocols::Sink;
use psp_server::{Reply, Request, task, wait};

/// Pages of another server, fetched over connections that the requests of all workers share.
pub struct Pages {
    pub client: reqwest::Client,
    /// Such as `http://127.0.0.1:8080`.
    pub origin: String,
    pub patience: Duration,
}

impl Pages {
    async fn fetch(&self, path: &str) -> reqwest::Result<String> {
        let url = format!("{}/{path}", self.origin);
        let page = self.client.get(url).send().await?.error_for_status()?;
        page.text().await
    }

    /// Answers with the page that the request names, if it comes in time.
    pub fn answer(&self, request: &Request<'_, ()>, reply: &mut Reply<'_>) {
        let path = String::from_utf8_lossy(request.payload);
        let page = self.fetch(path.trim_end());
        match wait(task::timeout(self.patience, page)) {
            Ok(Ok(page)) => reply.put(page.as_bytes()),
            Ok(Err(error)) => reply.fail(error),
            Err(elapsed) => reply.fail(elapsed),
        }
    }
}
