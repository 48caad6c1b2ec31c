//! URIs and URLs as Java parses them (RFC 2396 with its deviations), as far as the rules need it.

/// The parts of a URI that rules need.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Uri<'a> {
    pub(super) scheme: Option<&'a str>,
    /// Also `None` if the authority is not a valid host, as in `https://my_host/`.
    pub(super) host: Option<&'a str>,
}

/// Parses `text`, or returns what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Uri<'_>, String> {
    if let Some(bad) = text.chars().find(|c| is_never_allowed(*c)) {
        return Err(format!("character `{}` must be escaped", bad.escape_default()));
    }
    check_escapes(text)?;
    let (text, fragment) = match text.split_once('#') {
        Some((text, fragment)) => (text, fragment),
        None => (text, ""),
    };
    if fragment.contains('#') {
        return Err("there can be only one `#`".to_owned());
    }
    let (scheme, rest) = split_scheme(text)?;
    if scheme.is_some() && rest.is_empty() {
        return Err("nothing follows the scheme".to_owned());
    }
    let authority = rest.strip_prefix("//").map(|rest| {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        rest.split_at(end)
    });
    let (authority, path) = match authority {
        Some((authority, path)) => (Some(authority), path),
        None => (None, rest),
    };
    if path.contains(['[', ']']) {
        return Err("`[` and `]` must be escaped".to_owned());
    }
    if authority == Some("") && path.is_empty() {
        return Err("nothing follows `//`".to_owned());
    }
    Ok(Uri { scheme, host: authority.and_then(host_of) })
}

/// Returns what is wrong with `url`, which has a scheme, as an address.
pub(super) fn url_problem(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let server = authority.rsplit_once('@').map_or(authority, |(_, server)| server);
    let (host, port) = match server.strip_prefix('[') {
        Some(bracketed) => {
            let Some((host, rest)) = bracketed.split_once(']') else {
                return Some("`[` is not closed".to_owned());
            };
            (host, rest.strip_prefix(':').unwrap_or(rest))
        }
        None => server.split_once(':').unwrap_or((server, "")),
    };
    if server.starts_with('[') && host.parse::<core::net::Ipv6Addr>().is_err() {
        return Some(format!("`{host}` is not an IPv6 address"));
    }
    if port.is_empty() || port.parse::<i32>().is_ok_and(|port| port >= -1) {
        return None;
    }
    Some(format!("`{port}` is not a port"))
}

fn is_never_allowed(c: char) -> bool {
    c.is_control() || c.is_whitespace() || "\"<>\\^`{|}".contains(c)
}

fn check_escapes(text: &str) -> Result<(), String> {
    let mut parts = text.split('%');
    // The text before the first `%` is not an escape.
    let _start = parts.next();
    for escape in parts {
        if !(escape.len() >= 2 && escape.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())) {
            return Err("`%` must be followed by two hex digits".to_owned());
        }
    }
    Ok(())
}

fn split_scheme(text: &str) -> Result<(Option<&str>, &str), String> {
    let end = text.find(['/', '?', ':']).filter(|end| text[*end..].starts_with(':'));
    let Some(end) = end else { return Ok((None, text)) };
    let (scheme, rest) = (&text[..end], &text[end + 1..]);
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if is_scheme { Ok((Some(scheme), rest)) } else { Err(format!("`{scheme}` is not a scheme")) }
}

/// Returns the host of an authority that is a server.
fn host_of(authority: &str) -> Option<&str> {
    let server = authority.rsplit_once('@').map_or(authority, |(_, server)| server);
    if let Some(bracketed) = server.strip_prefix('[') {
        let (address, _) = bracketed.split_once(']')?;
        // A zone such as `%25eth0` is not part of the address.
        let plain = address.split('%').next().unwrap_or(address);
        return plain.parse::<core::net::Ipv6Addr>().is_ok().then_some(address);
    }
    let (host, port) = server.split_once(':').unwrap_or((server, ""));
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    (is_port && is_host_name(host)).then_some(host)
}

/// Returns true for labels of letters, digits and inner `-`, the last one starting with a letter; or IPv4.
fn is_host_name(host: &str) -> bool {
    if host.parse::<core::net::Ipv4Addr>().is_ok() {
        return true;
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(is_label)
        && host
            .rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests;
