//! Upload of a large object to S3 in parts. The service makes the object when it has all of them, so that no partial
//! object exists.

use std::path::Path;

use anyhow::{Context, bail};
use http::header::ETAG;
use rusty_s3::actions::{CompleteMultipartUploadResponse, CreateMultipartUpload};

use super::body::FilePart;
use super::s3::S3;
use super::{Action, Content, Remote, Upload};

/// Most parts of an object: the limit of S3.
const MOST: u64 = 10_000;

impl Remote {
    /// Writes a file as an object in parts. If that fails, it removes the parts.
    ///
    /// # Errors
    /// The service's.
    pub(super) async fn put_in_parts(
        &self,
        s3: &S3,
        name: &str,
        file: &Path,
        size: u64,
    ) -> anyhow::Result<()> {
        let begun = self.read(Action::Begin(name), Content::None).await?;
        let begun = CreateMultipartUpload::parse_response(&begun);
        let begun = begun.with_context(|| format!("{}: its upload is not understood", self.url(name)))?;
        let upload = Upload { name, id: begun.upload_id() };
        let written = self.write_parts(s3, upload, file, size).await;
        if written.is_err() {
            // The service keeps the parts, and charges for them, until they are removed.
            let _ = self.send(Action::Abort(upload), Content::None).await;
        }
        written
    }

    async fn write_parts(&self, s3: &S3, upload: Upload<'_>, file: &Path, size: u64) -> anyhow::Result<()> {
        let mut tags = Vec::new();
        for (number, (start, size)) in (1..).zip(parts(size, s3.part_size())) {
            let part = FilePart { path: file, start, size };
            let answer = self.send(Action::Part(upload, number), Content::File(part)).await?;
            let tag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
            match tag {
                Some(tag) => tags.push(tag.to_owned()),
                None => bail!("{}: part {number} has no ETag", self.url(upload.name)),
            }
        }
        let body = s3.completion(upload, &tags);
        let answer = self.read(Action::Complete(upload, &tags), Content::Text(&body)).await?;
        // The status is 200 for an error, too, because it is sent before the parts are joined.
        CompleteMultipartUploadResponse::parse(&answer)
            .with_context(|| format!("{}: its parts cannot be joined", self.url(upload.name)))?;
        Ok(())
    }

    async fn read(&self, action: Action<'_>, content: Content<'_>) -> anyhow::Result<String> {
        let text = self.send(action, content).await?.text().await;
        let text = text.map_err(reqwest::Error::without_url);
        text.with_context(|| format!("{}: cannot {}", self.name, action.describe()))
    }
}

/// Returns the positions and sizes of the parts of an object. They are larger than `part` if there would be too many.
fn parts(size: u64, part: u64) -> impl Iterator<Item = (u64, u64)> {
    let part = part.max(size.div_ceil(MOST)).max(1);
    (0..size.div_ceil(part)).map(move |number| {
        let start = number.saturating_mul(part);
        (start, part.min(size.saturating_sub(start)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_an_object_and_there_are_never_too_many() {
        assert_eq!(parts(11, 5).collect::<Vec<_>>(), [(0, 5), (5, 5), (10, 1)]);
        assert_eq!(parts(10, 5).collect::<Vec<_>>(), [(0, 5), (5, 5)]);
        assert_eq!(parts(0, 5).count(), 0);
        for size in [100_000, 99_999, 100_001] {
            let all: Vec<_> = parts(size, 5).collect();
            assert!(all.len() <= 10_000 && all.iter().map(|(_, size)| size).sum::<u64>() == size);
            assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{size}");
        }
    }
}
