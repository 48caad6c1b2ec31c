//! Style, scripts and icon. They are embedded in the program, so that pages load nothing from elsewhere.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// Path of the files. The rest of a path changes with their content, so that browsers may cache them.
pub const PLACE: &str = "/assets/";

/// An embedded file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asset {
    pub name: &'static str,
    pub content_type: &'static str,
    pub text: &'static str,
}

/// The style of all pages.
pub const STYLE: Asset = Asset {
    name: "console.css",
    content_type: "text/css; charset=utf-8",
    text: concat!(
        include_str!("assets/console.css"),
        include_str!("assets/act.css"),
        include_str!("assets/job.css"),
        include_str!("assets/config.css"),
        include_str!("assets/autoscaler.css"),
        include_str!("assets/logs.css"),
        include_str!("assets/pod.css")
    ),
};
/// The script that keeps pages live.
pub const SCRIPT: Asset = Asset {
    name: "console.js",
    content_type: "text/javascript; charset=utf-8",
    text: include_str!("assets/console.js"),
};
/// The script that appends lines to logs.
pub const LOGS_SCRIPT: Asset = Asset {
    name: "logs.js",
    content_type: "text/javascript; charset=utf-8",
    text: include_str!("assets/logs.js"),
};
/// The icon of the browser tab.
pub const ICON: Asset = Asset {
    name: "icon.svg",
    content_type: "image/svg+xml",
    text: include_str!("assets/icon.svg"),
};

const ALL: [Asset; 4] = [STYLE, SCRIPT, LOGS_SCRIPT, ICON];

static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for asset in ALL {
        digest.update(asset.text);
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
});

/// Returns the path of a file.
pub fn address(asset: Asset) -> String {
    format!("{PLACE}{}/{}", *HASH, asset.name)
}

/// Returns the file at this path, if it belongs to this build.
pub fn find(path: &str) -> Option<Asset> {
    ALL.into_iter().find(|asset| address(*asset) == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_address() {
        for asset in ALL {
            assert_eq!(find(&address(asset)), Some(asset));
        }
        for path in ["/assets/console.css", "/assets/0/console.css", "/assets/"] {
            assert_eq!(find(path), None);
        }
    }

    /// The browser's policy would refuse requests to other servers, so nothing may send any.
    #[test]
    fn nothing_of_others_is_asked_for() {
        for asset in ALL {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            for word in ["http:", "https:", "url(", "@import", "import("] {
                assert!(!text.contains(word), "{}: {word}", asset.name);
            }
        }
    }
}
