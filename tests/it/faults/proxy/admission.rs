//! Webhooks that change what is sent. The API server stores what they make of it.

use bytes::Bytes;
use serde_json::Value;

use crate::faults::proxy::Asked;

/// Registry from which images are pulled instead.
const MIRROR: &str = "mirror.example.com/";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Admission {
    /// Removes the annotations of this project, as a webhook does that only knows some.
    Annotations,
    /// Replaces the registry of images in Deployments and pods.
    Images,
}

impl Admission {
    /// Whether it changes what this request sends. It changes dry runs, too.
    pub(crate) fn is_about(self, asked: &Asked) -> bool {
        let path = asked.path.split('?').next().unwrap_or_default();
        let is_object = asked.path.starts_with("/api") && !path.ends_with("/status");
        let is_written = ["POST", "PUT", "PATCH"].contains(&asked.method.as_str());
        is_object && is_written && self.change(asked.body.as_bytes()) != asked.body
    }

    /// Returns the object that is stored in place of the one that was sent.
    pub(super) fn change(self, sent: &[u8]) -> Bytes {
        let Ok(mut object) = serde_json::from_slice::<Value>(sent) else {
            return Bytes::copy_from_slice(sent);
        };
        let is_changed = match self {
            Self::Annotations => remove_annotations(&mut object),
            Self::Images => replace_images(&mut object),
        };
        if is_changed { object.to_string().into() } else { Bytes::copy_from_slice(sent) }
    }

    /// Returns the text without what it adds to objects.
    pub(crate) fn undone(text: &str) -> String {
        text.replace(MIRROR, "")
    }
}

fn remove_annotations(object: &mut Value) -> bool {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    annotations.is_some_and(|annotations| {
        let count = annotations.len();
        annotations.retain(|key, _| !key.contains("flink.apache.org/"));
        annotations.len() < count
    })
}

fn replace_images(object: &mut Value) -> bool {
    // In a pod, and in the template of a Deployment.
    let specs = ["/spec/containers", "/spec/template/spec/containers"];
    let mut is_changed = false;
    for path in specs {
        let containers = object.pointer_mut(path).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Some(image) = container["image"].as_str() else { continue };
            if !image.starts_with(MIRROR) {
                container["image"] = format!("{MIRROR}{image}").into();
                is_changed = true;
            }
        }
    }
    is_changed
}
