//! Asks the user before a change.

use std::io::{IsTerminal, Write};

/// The source of consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// `--yes`.
    Given,
    /// A user at a terminal.
    Ask,
}

impl Consent {
    /// `None` without `--yes` and without a terminal.
    pub(super) fn new(is_given: bool) -> Option<Self> {
        if is_given {
            return Some(Self::Given);
        }
        std::io::stdin().is_terminal().then_some(Self::Ask)
    }

    /// Whether a change may be made that is the purpose of the command.
    pub(super) fn to(self, question: &str) -> bool {
        self == Self::Given || ask(question, EnterKeyMeaning::Yes)
    }

    /// Whether a change may be made that `--yes` does not include.
    pub(super) fn only_by_hand(self, question: &str) -> bool {
        self == Self::Ask && ask(question, EnterKeyMeaning::No)
    }
}

/// The meaning of the enter key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EnterKeyMeaning {
    Yes,
    No,
}

fn ask(question: &str, default: EnterKeyMeaning) -> bool {
    let choice = if default == EnterKeyMeaning::Yes {
        "[Y/n]"
    } else {
        "[y/N]"
    };
    let mut talk = std::io::stderr().lock();
    let _ = write!(talk, "galley: {question} {choice} ");
    let _ = talk.flush();
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        // The end of the input is not consent.
        Ok(0) | Err(_) => false,
        Ok(_) => match line.trim().to_ascii_lowercase().as_str() {
            "" => default == EnterKeyMeaning::Yes,
            answer => matches!(answer, "y" | "yes"),
        },
    }
}
