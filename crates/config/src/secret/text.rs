//! Secrets in texts of any form: messages of exceptions, log lines, addresses, properties, JSON, YAML, commands.
//!
//! One walk over the words of the text. Each looks a limited way back and ahead, or hides what it has looked at, so the
//! time is proportional to the length.

use super::HIDDEN;
use super::names::is_secret;

/// Schemes in whose addresses a name before the `@` is a container or a user, and no token.
const NAMED_USERS: [&str; 9] = [
    "abfs",
    "abfss",
    "wasb",
    "wasbs",
    "ssh",
    "akka.tcp",
    "akka.ssl.tcp",
    "pekko.tcp",
    "pekko.ssl.tcp",
];

/// Addresses that are a secret themselves: end of the host, and beginning of the path, after which nothing is shown.
const WEBHOOKS: [(&str, &str); 17] = [
    ("hooks.slack.com", "/services/"),
    ("hooks.slack.com", "/workflows/"),
    ("hooks.slack.com", "/triggers/"),
    ("discord.com", "/api/webhooks/"),
    ("discordapp.com", "/api/webhooks/"),
    ("webhook.office.com", "/webhookb2/"),
    ("outlook.office.com", "/webhook/"),
    ("outlook.office365.com", "/webhook/"),
    ("api.telegram.org", "/bot"),
    ("open.feishu.cn", "/open-apis/bot/v2/hook/"),
    ("open.larksuite.com", "/open-apis/bot/v2/hook/"),
    ("events.pagerduty.com", "/integration/"),
    ("hooks.zapier.com", "/hooks/catch/"),
    ("maker.ifttt.com", "/trigger/"),
    ("alert.victorops.com", "/integrations/"),
    // On hosts of any name, such as those of Mattermost and Rocket.Chat.
    ("", "/hooks/"),
    ("", "/webhooks/"),
];

/// Beginnings of tokens, and the least length of the whole.
const TOKENS: [(&str, usize); 19] = [
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 40),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xapp-", 20),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 35),
    ("sk_live_", 20),
    ("rk_live_", 20),
    ("hvs.", 20),
    ("npm_", 36),
    ("dckr_pat_", 20),
    // A JSON Web Token.
    ("eyJ", 40),
];

/// Schemes of `Authorization`, which are shown, and whether a single word follows.
const SCHEMES: [(&str, bool); 11] = [
    ("Bearer", true),
    ("Basic", true),
    ("Negotiate", true),
    ("Token", true),
    ("ApiKey", true),
    ("NTLM", true),
    ("Digest", false),
    ("SharedKey", false),
    ("SharedKeyLite", false),
    ("AWS4-HMAC-SHA256", false),
    ("AWS", false),
];

/// The longest that is looked ahead, in bytes, for something that may not be there.
const AHEAD_MAX: usize = 256;
/// Minimum length of what follows `Bearer` in a sentence for it to be a token.
const BEARER_MIN: usize = 16;
/// How the first line of a private key ends, and a line of one that is encrypted begins.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";
const KEY_HEADERS: [&str; 2] = ["Proc-Type:", "DEK-Info:"];
/// Minimum length of base64 that is not a word.
const BASE64_MIN: usize = 32;

/// Maximum number of walks after the first one.
const WALKS_MAX: usize = 4;

/// Hides secrets in a text: values such as `password: x`, `"password":"x"` or `--password x`, logins and tokens in
/// addresses, and what has the form of a token or a private key. For foreign texts, such as the message of an
/// exception.
pub fn hide_in(text: &str) -> String {
    let mut shown = hide_once(text);
    if shown == text {
        return shown;
    }
    // What stands for a secret may make one of what is beside it. A status would change again and again.
    for _ in 0..WALKS_MAX {
        let again = hide_once(&shown);
        if again == shown {
            break;
        }
        shown = again;
    }
    shown
}

fn hide_once(text: &str) -> String {
    let mut walk = Walk {
        text,
        at: 0,
        shown: String::with_capacity(text.len()),
        line: 0,
        is_line_fresh: true,
        names_secret: false,
    };
    while walk.at < text.len() {
        walk.next();
    }
    walk.shown
}

struct Walk<'a> {
    text: &'a str,
    /// Everything before has been looked at.
    at: usize,
    shown: String,
    /// Where the line begins.
    line: usize,
    /// Whether nothing but blanks precedes on the line.
    is_line_fresh: bool,
    /// Whether the last `name` or `key` is that of a secret, so that its `value` is to be hidden.
    names_secret: bool,
}

/// A value in the text, by its positions.
struct Found {
    from: usize,
    to: usize,
}

impl<'a> Walk<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn before(&self) -> &'a str {
        self.text.get(..self.at).unwrap_or_default()
    }

    /// Shows the text up to here.
    fn show_until(&mut self, to: usize) {
        self.shown.push_str(self.text.get(self.at..to).unwrap_or_default());
        self.at = to;
    }

    fn hide(&mut self, found: &Found) {
        let secret = self.text.get(found.from..found.to).unwrap_or_default();
        if secret.chars().all(|letter| letter == '*') {
            // It is hidden already, and may have been cut since.
            return self.show_until(found.to);
        }
        self.show_until(found.from);
        self.shown.push_str(HIDDEN);
        self.at = found.to;
    }

    fn next(&mut self) {
        let rest = self.rest();
        let length = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
        if length > 0 {
            self.word(length);
            return;
        }
        let Some(letter) = rest.chars().next() else { return };
        self.show_until(self.at + letter.len_utf8());
        if letter == '\n' {
            self.line = self.at;
            self.is_line_fresh = true;
        } else {
            self.is_line_fresh &= letter.is_whitespace() || letter == '#';
        }
    }

    fn word(&mut self, length: usize) {
        let before = self.before();
        let is_fresh = std::mem::take(&mut self.is_line_fresh);
        let end = self.at + length;
        let word = self.rest().get(..length).unwrap_or_default();
        // In a string of JSON or Java, the letter is part of a line end.
        let word = match word.strip_prefix(['n', 'r', 't']) {
            Some(rest) if before.ends_with('\\') && !rest.is_empty() => rest,
            Some(_) | None => word,
        };
        if is_token(word) {
            self.hide(&Found { from: end - word.len(), to: end });
            return;
        }
        self.show_until(end);
        if let Some(login) = self.login(word) {
            self.hide(&login);
            return;
        }
        if let Some(path) = self.webhook(word) {
            self.hide(&path);
            return;
        }
        if word.ends_with("-----BEGIN") {
            self.private_key();
            return;
        }
        self.is_line_fresh = is_fresh && matches!(word, "export" | "-");
        if let Some(found) = self.bearer(word) {
            self.hide(&found);
            return;
        }
        let is_tag = before.ends_with('<');
        let Some(value) = self.value_from(is_tag) else {
            if word.starts_with('-')
                && is_secret(word)
                && let Some(found) = self.argument()
            {
                self.hide(&found);
            }
            return;
        };
        if matches!(word, "name" | "key") && !before.ends_with(['?', '&']) {
            let named = self.text.get(value..).unwrap_or_default();
            let named = named.trim_start_matches(is_quote);
            self.names_secret = is_secret(until(named, |letter| !is_of_name(letter)));
            return;
        }
        let is_named = word == "value" && std::mem::take(&mut self.names_secret);
        let is_parameter = word == "key" && before.ends_with(['?', '&']);
        if is_named || is_parameter || is_secret(word) {
            let is_line = is_fresh && !is_tag;
            if let Some(found) =
                self.value(value, is_line, word.eq_ignore_ascii_case("authorization"))
            {
                self.hide(&found);
                if is_line {
                    self.block();
                }
            }
        }
    }

    /// Returns where the value begins if the word before is its name.
    fn value_from(&self, is_tag: bool) -> Option<usize> {
        let rest = self.rest();
        let at = |rest: &str| self.text.len() - rest.len();
        if is_tag {
            return rest.strip_prefix('>').map(at);
        }
        // A property of Hadoop.
        if let Some(rest) = rest.strip_prefix("</name>") {
            return rest.trim_start().strip_prefix("<value>").map(at);
        }
        let rest = rest.trim_start_matches(is_quote).trim_start_matches(' ');
        let rest = rest.strip_prefix("=>").or_else(|| rest.strip_prefix([':', '=']))?;
        Some(at(rest.trim_start_matches(' ')))
    }

    /// Returns the value that begins at this place; on a line of its own it ends with that.
    fn value(&self, from: usize, is_line: bool, is_authorization: bool) -> Option<Found> {
        let rest = self.text.get(from..)?;
        // What is in an object has names of its own.
        if rest.starts_with('{') {
            return None;
        }
        // Of a list, the first item.
        if rest.starts_with('[') {
            return self.value(from + 1, false, false);
        }
        let slashes = rest.len() - rest.trim_start_matches('\\').len();
        let inside = rest.get(slashes..)?;
        if let Some(quote @ ('"' | '\'' | '`')) = inside.chars().next() {
            let from = from + slashes + 1;
            let inside = self.text.get(from..)?;
            let length = end_of_quoted(inside, quote, slashes);
            return (length > 0).then_some(Found { from, to: from + length });
        }
        if let Some(length) = end_of_escaped_block(rest) {
            return Some(Found { from, to: from + length });
        }
        let mut begins = from;
        let mut ends: fn(&str) -> usize = if is_line { end_of_line } else { end_of_word };
        if is_authorization && let Some((scheme, _)) = ahead(rest).split_once(' ') {
            let known = SCHEMES.iter().find(|(it, _)| it.eq_ignore_ascii_case(scheme));
            if let Some((scheme, is_single)) = known {
                begins += scheme.len() + 1;
                ends = if *is_single { end_of_word } else { |text| until(text, is_line_end).len() };
            }
        }
        let value = self.text.get(begins..)?;
        let length = ends(value);
        // The backslashes belong to the quote after it.
        let value = value.get(..length)?;
        let value = if self.text.get(begins + length..)?.starts_with(is_quote) {
            value.trim_end_matches('\\')
        } else {
            value.trim_end()
        };
        (!value.is_empty()).then_some(Found { from: begins, to: begins + value.len() })
    }

    /// Hides the lines below a name in YAML whose value is such a block. The place is behind its hidden indicator.
    fn block(&mut self) {
        let lead = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
        let line = self.text.get(self.line..self.at).unwrap_or_default();
        let indicator = line.rsplit(' ').next().unwrap_or_default();
        let is_block = indicator.starts_with(['|', '>']) && indicator.len() <= 3;
        let indent = lead(line);
        while is_block && let Some(below) = self.rest().strip_prefix('\n') {
            let below = until(below, |letter| letter == '\n');
            let blanks = below.len() - below.trim_start().len();
            if blanks <= indent && !below.trim().is_empty() {
                break;
            }
            let from = self.at + 1 + blanks;
            let to = self.at + 1 + below.len();
            if from < to {
                self.hide(&Found { from, to });
            } else {
                self.show_until(to);
            }
        }
    }

    /// Returns the argument after `--password`, in a command or a list.
    fn argument(&self) -> Option<Found> {
        let rest = self.rest();
        let after = rest.trim_start_matches(is_quote);
        let after = after.strip_prefix(',').unwrap_or(after);
        let word = after.trim_start_matches(' ');
        if word.len() == rest.len() || word.starts_with('-') {
            return None;
        }
        let slashes = word.len() - word.trim_start_matches('\\').len();
        let inside = word.get(slashes..)?;
        let at = |rest: &str| self.text.len() - rest.len();
        if let Some(quote @ ('"' | '\'' | '`')) = inside.chars().next() {
            let inside = inside.get(1..)?;
            if inside.starts_with('-') {
                return None;
            }
            let length = end_of_quoted(inside, quote, slashes);
            return (length > 0).then(|| Found { from: at(inside), to: at(inside) + length });
        }
        let length = end_of_word(word);
        (length > 0).then(|| Found { from: at(word), to: at(word) + length })
    }

    /// Returns the name and the password, or the token, before the host of an address whose scheme is the word.
    fn login(&self, word: &str) -> Option<Found> {
        let rest = self.rest();
        if word == "jdbc" {
            return self.oracle_login();
        }
        // Of a name it is the value that begins so.
        let authority = rest.strip_prefix("://").filter(|_| !is_secret(word))?;
        let from = self.at + "://".len();
        let ends = |it: char| it.is_whitespace() || is_quote(it) || "/?#<>;".contains(it);
        let host = until(authority, ends);
        if let Some(at) = host.rfind('@') {
            let login = host.get(..at)?;
            let is_named = NAMED_USERS.iter().any(|it| it.eq_ignore_ascii_case(word));
            let hides = !login.is_empty() && (login.contains(':') || !is_named);
            return hides.then_some(Found { from, to: from + at });
        }
        let (_, port) = host.trim_end_matches(|it| ")]}.,;:!".contains(it)).rsplit_once(':')?;
        // What was hidden before is not hidden once more.
        let is_port = port.chars().all(|it| it.is_ascii_digit());
        if is_port || host.contains(['[', '$', '{', ',', '*']) {
            return None;
        }
        // The text may be cut within the password, and a password may contain what has to be encoded.
        let ahead = ahead(authority);
        let line = until(ahead, |it| it.is_whitespace() || is_quote(it));
        if let Some(at) = line.rfind('@') {
            return Some(Found { from, to: from + at });
        }
        let is_cut = authority.get(host.len()..).is_none_or(|rest| !rest.starts_with('/'));
        is_cut.then(|| Found { from, to: from + host.len() })
    }

    /// Returns the login in `jdbc:oracle:thin:scott/tiger@//host`.
    fn oracle_login(&self) -> Option<Found> {
        let driver = self.rest().strip_prefix(":oracle:")?;
        let (driver, login) = ahead(driver).split_once(':')?;
        let from = self.at + ":oracle:".len() + driver.len() + 1;
        let login = until(login, |it| it.is_whitespace() || is_quote(it));
        let at = login.find('@')?;
        (login.get(..at)?.contains('/')).then_some(Found { from, to: from + at })
    }

    /// Returns the secret part of the path of an address whose host is the word.
    fn webhook(&self, word: &str) -> Option<Found> {
        let rest = self.rest();
        if !rest.starts_with('/') {
            return None;
        }
        let (host, path) = WEBHOOKS.iter().find(|(host, path)| {
            rest.starts_with(path)
                && word
                    .get(word.len().saturating_sub(host.len())..)
                    .is_some_and(|it| it.eq_ignore_ascii_case(host))
        })?;
        let from = self.at + path.len();
        let ends = |it: char| it.is_whitespace() || is_quote(it) || "<>)]},;".contains(it);
        let secret = rest.get(path.len()..)?;
        // On any host it may be no secret, and is looked at again.
        let secret = until(if host.is_empty() { ahead(secret) } else { secret }, ends);
        let is_random = || {
            secret.len() >= BEARER_MIN
                && secret.contains(|it: char| it.is_ascii_digit())
                && secret.chars().all(|it| it.is_ascii_alphanumeric() || "/-_".contains(it))
        };
        (!secret.is_empty() && (!host.is_empty() || is_random()))
            .then_some(Found { from, to: from + secret.len() })
    }

    /// Returns the token after this word.
    fn bearer(&self, word: &str) -> Option<Found> {
        if !word.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let token = self.rest().strip_prefix(' ')?;
        let token = until(token, |letter| !is_of_base64(letter) && !is_of_name(letter));
        let from = self.at + 1;
        (token.len() >= BEARER_MIN).then_some(Found { from, to: from + token.len() })
    }

    /// Hides the lines of a private key. The place is behind `-----BEGIN`.
    fn private_key(&mut self) {
        let first = until(ahead(self.rest()), |letter| matches!(letter, '\n' | '\\' | '"'));
        let Some(end) = first.find(PRIVATE_KEY) else { return };
        self.show_until(self.at + end + PRIVATE_KEY.len());
        loop {
            let rest = self.rest();
            let line = match escaped_line_end(rest) {
                Some(line_end) => rest.get(line_end.len()..).unwrap_or_default(),
                None => rest.trim_start(),
            };
            let is_apart = line.len() < rest.len();
            let word =
                until(line, |letter| letter.is_whitespace() || letter == '\\' || is_quote(letter));
            let from = self.text.len() - line.len();
            if word.is_empty() && is_apart && line.starts_with('\\') {
                self.show_until(from);
                continue;
            }
            if KEY_HEADERS.contains(&word) {
                let line = until(line, |letter| matches!(letter, '\n' | '\\'));
                self.show_until(from + line.len());
                continue;
            }
            let after = line.get(word.len()..).unwrap_or_default();
            let is_line = word.len() >= BASE64_MIN || !after.starts_with(' ');
            if word.is_empty() || !is_apart || !is_line || !word.chars().all(is_of_base64) {
                return;
            }
            // A key whose end is missing must not hide the rest of a log.
            self.hide(&Found { from, to: from + word.len() });
        }
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_')
}

fn is_of_base64(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '+' | '/' | '=')
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`' | '\\')
}

/// Returns the line end at the beginning of a text in a string of JSON, or in one within another.
fn escaped_line_end(text: &str) -> Option<&str> {
    let slashes = text.len() - text.trim_start_matches('\\').len();
    let is_line_end = slashes > 0 && text.get(slashes..)?.starts_with(['n', 'r']);
    is_line_end.then(|| text.get(..=slashes)).flatten()
}

/// Returns the length of a block of YAML, with its indicator, in a string of JSON.
fn end_of_escaped_block(text: &str) -> Option<usize> {
    let lines = text.strip_prefix(['|', '>'])?;
    let lines = lines.trim_start_matches(|it: char| matches!(it, '-' | '+') || it.is_ascii_digit());
    let line_end = escaped_line_end(lines)?;
    let mut length = 0;
    for line in lines.split(line_end).skip(1) {
        let inside = until(line, |letter| letter == '"' || is_line_end(letter));
        if !inside.is_empty() && !inside.starts_with(' ') {
            break;
        }
        length += line_end.len() + inside.len();
        if inside.len() < line.len() {
            break;
        }
    }
    Some(text.len() - lines.len() + length)
}

fn is_line_end(letter: char) -> bool {
    matches!(letter, '\n' | '\r')
}

fn is_token(word: &str) -> bool {
    TOKENS.iter().any(|(begin, length)| {
        word.len() >= *length
            && word.starts_with(begin)
            && (*begin != "eyJ" || word.contains('.'))
            && (begin.len() != 4 || !begin.starts_with('A') || !word.contains(['.', '_']))
    })
}

/// Returns the beginning that may be searched for what need not be there.
fn ahead(text: &str) -> &str {
    text.get(..text.floor_char_boundary(AHEAD_MAX)).unwrap_or_default()
}

fn until(text: &str, ends: impl Fn(char) -> bool) -> &str {
    let end = text.find(ends).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Returns the length of a text before the quote that ends it, with as many backslashes as precede the one that begins
/// it. Within, there are more.
fn end_of_quoted(text: &str, quote: char, slashes: usize) -> usize {
    let mut run = 0;
    for (at, letter) in text.char_indices() {
        if letter == '\\' {
            run += 1;
            continue;
        }
        if letter == quote && run % (2 * (slashes + 1)) == slashes {
            return at - slashes;
        }
        run = 0;
    }
    text.len()
}

/// Returns the length of a value without quotes.
fn end_of_word(text: &str) -> usize {
    let ends = |letter: char| {
        letter.is_whitespace() || matches!(letter, ',' | ';' | ')' | '}' | ']' | '"' | '<')
    };
    let word = until(text, ends);
    // In a string of JSON it may end with the next line's name.
    let name = word.strip_suffix(':').and_then(|word| word.rfind('\\'));
    name.map_or(word, |at| word.get(..at).unwrap_or(word)).trim_end_matches('\\').len()
}

/// Returns the length of a value on a line of its own, which another pair may follow.
fn end_of_line(text: &str) -> usize {
    let line = until(text, |letter| is_line_end(letter) || letter == '"');
    let pair = [", ", "; "].iter().filter_map(|it| line.find(it)).min();
    pair.unwrap_or(line.len())
}
