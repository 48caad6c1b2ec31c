//! The terminal while `top` uses it: alternate screen, and keys read one by one.
//!
//! It is restored when the screen is closed or dropped, and before a panic is reported, which ends the process without
//! dropping anything.

use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    self, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};
use tokio::sync::mpsc;

/// Maximum time by which the thread that reads keys outlives the screen.
const POLL: Duration = Duration::from_millis(200);
/// Maximum number of keys waiting to be handled; more are dropped, such as those of a key that is held down.
const KEYS_MAX: usize = 16;
/// Columns and rows of a terminal that does not report its size.
const SIZE: (u16, u16) = (80, 24);

/// Whether the terminal needs to be restored.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Request of the user at the terminal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    Order,
    Resized,
}

/// The terminal in use; dropping it restores the terminal.
pub(super) struct Screen {
    keys: mpsc::Receiver<Key>,
}

impl Screen {
    /// Switches the terminal to the alternate screen.
    pub(super) fn open() -> io::Result<Self> {
        HOOK.call_once(|| {
            let described = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                described(panic);
            }));
        });
        IS_OPEN.store(true, Ordering::SeqCst);
        let (to_screen, keys) = mpsc::channel(KEYS_MAX);
        // Dropped on an early return, which restores the terminal.
        let screen = Self { keys };
        terminal::enable_raw_mode()?;
        let mut output = io::stdout();
        queue!(output, EnterAlternateScreen, Hide, DisableLineWrap)?;
        output.flush()?;
        std::thread::spawn(move || read(&to_screen));
        Ok(screen)
    }

    /// Returns the next key; `None` if the terminal is gone.
    pub(super) async fn key(&mut self) -> Option<Key> {
        self.keys.recv().await
    }

    /// Returns columns and rows.
    pub(super) fn size() -> (usize, usize) {
        let (columns, rows) = terminal::size().unwrap_or(SIZE);
        (usize::from(columns.max(1)), usize::from(rows.max(1)))
    }

    /// Restores the terminal.
    pub(super) fn close(self) {
        drop(self);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once.
fn restore() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        // If the terminal is gone, there is nothing to restore.
        drop(execute!(io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen));
        drop(terminal::disable_raw_mode());
    }
}

/// Reads keys until the screen is dropped.
fn read(to_screen: &mpsc::Sender<Key>) {
    while !to_screen.is_closed() {
        let event = match event::poll(POLL) {
            Ok(true) => event::read(),
            Ok(false) => continue,
            Err(error) => Err(error),
        };
        let Ok(event) = event else { return };
        if let Some(key) = meaning(&event) {
            // Without room the key is dropped.
            let _sent = to_screen.try_send(key);
        }
    }
}

fn meaning(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(_, _) => Some(Key::Resized),
        Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => None,
        Event::Key(KeyEvent { code, modifiers, .. }) => match code {
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                Some(Key::Quit)
            }
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Key::Quit),
            KeyCode::Char('k') | KeyCode::Up => Some(Key::Up),
            KeyCode::Char('j') | KeyCode::Down => Some(Key::Down),
            KeyCode::Char('s') => Some(Key::Order),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use rustix::termios::{LocalModes, tcgetattr};
    use testing::terminal::terminal;

    use super::*;

    const CHILD: &str = "KUBECTL_FLINK_TEST_TOP_PANIC";

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
        meaning(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn keys_mean_what_help_says() {
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(key(code, KeyModifiers::NONE), Some(Key::Quit));
        }
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('s'), KeyModifiers::NONE), Some(Key::Order));
        assert_eq!(key(KeyCode::Char('j'), KeyModifiers::NONE), Some(Key::Down));
        assert_eq!(key(KeyCode::Up, KeyModifiers::NONE), Some(Key::Up));
    }

    /// The process ends without dropping anything, so the panic hook has to restore the terminal.
    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_reported() {
        if std::env::var_os(CHILD).is_some() {
            crate::cli::abort_on_panic();
            let _screen = Screen::open().unwrap();
            let is_raw = !tcgetattr(io::stdin()).unwrap().local_modes.contains(LocalModes::ECHO);
            panic!("as a view might, raw={is_raw}");
        }
        let (person, program) = terminal();
        let before = tcgetattr(&program).unwrap();
        assert!(before.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON));
        let name = "cli::top::screen::tests::a_panic_gives_the_terminal_back_before_it_is_reported";
        let hand = || Stdio::from(program.try_clone().unwrap());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .stdin(hand())
            .stdout(hand())
            .stderr(hand())
            .spawn()
            .unwrap();
        // Read the output concurrently, or the program would block on a full buffer.
        let mut seen = File::from(person);
        let (to_us, shown) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut part = [0; 4096];
            // Reading fails once no program has the terminal open.
            while let Ok(length @ 1..) = seen.read(&mut part) {
                all.extend_from_slice(&part[..length]);
            }
            to_us.send(String::from_utf8_lossy(&all).into_owned())
        });
        let ended = child.wait().unwrap();
        let after = tcgetattr(&program).unwrap();
        drop(program);
        let shown = shown.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(!ended.success(), "{shown}");
        let at =
            |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown:?}"));
        let (entered, left, told) = (at("\x1b[?1049h"), at("\x1b[?1049l"), at("raw=true"));
        assert!(entered < left && left < told, "{shown:?}");
        assert!(
            left > at("\x1b[?25l") && at("\x1b[?25h") < told,
            "the cursor is hidden: {shown:?}"
        );
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.input_modes, before.input_modes);
        assert_eq!(after.output_modes, before.output_modes);
    }
}
