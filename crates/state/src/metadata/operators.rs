//! The parts of the file: master states, operators with their subtasks, and the properties at its end.

use super::reader::Reader;
use super::{Kind, Operator, ParseError};

/// First bytes of the state of a master hook.
const MASTER_STATE_MAGIC: u32 = 0xc96b_1696;
/// First bytes of a Java object.
pub(super) const JAVA_OBJECT: [u8; 4] = [0xac, 0xed, 0x00, 0x05];
/// Maximum number of state names that are kept of an operator, and of master states.
const NAMES_MAX: usize = 50;

/// Adds a name that is not in the list yet, while there is room.
pub(super) fn keep(names: &mut Vec<String>, name: String) {
    if names.len() < NAMES_MAX && !names.contains(&name) {
        names.push(name);
    }
}

impl Reader<'_> {
    /// Reads the state of a hook, and returns its name.
    pub(super) fn master_state(&mut self) -> Result<String, ParseError> {
        const WHAT: &str = "a master state";
        if self.unsigned(WHAT)? != MASTER_STATE_MAGIC {
            return Err(self.broken("a master state was expected there"));
        }
        let length = self.count(WHAT)?;
        let end = self.at.saturating_add(length as usize);
        self.int(WHAT)?;
        let name = self.text(WHAT)?;
        let length = self.count(WHAT)?;
        self.skip(length, 1, WHAT)?;
        if self.at != end {
            return Err(self.broken("a master state does not have its stated length"));
        }
        Ok(name)
    }

    pub(super) fn operator(&mut self, version: u32) -> Result<Operator, ParseError> {
        const WHAT: &str = "an operator";
        let mut operator = Operator::default();
        if version >= 5 {
            operator.name = Some(self.text(WHAT)?).filter(|name| !name.is_empty());
            operator.uid = Some(self.text(WHAT)?).filter(|uid| !uid.is_empty());
        }
        let id: [u8; 16] = self.array(WHAT)?;
        operator.id = format!("{:032x}", u128::from_be_bytes(id));
        operator.parallelism = self.int(WHAT)?;
        operator.max_parallelism = self.int(WHAT)?;
        if operator.parallelism < 0 || operator.max_parallelism < operator.parallelism {
            return Err(self.broken(format!(
                "operator {} has parallelism {} of at most {}",
                operator.id, operator.parallelism, operator.max_parallelism
            )));
        }
        if version >= 3 {
            operator.bytes.coordinator = self.stream(0)?;
        } else {
            // The length of a chain, which is no longer used.
            self.int(WHAT)?;
        }
        let count = self.int(WHAT)?;
        if count < 0 {
            operator.is_finished = true;
            return Ok(operator);
        }
        for _ in 0..count {
            // Since version 3, a finished subtask has a negative number and nothing else.
            if self.int("a subtask")? < 0 && version >= 3 {
                operator.finished_subtasks += 1;
            } else {
                operator.subtasks += 1;
                self.subtask(version, &mut operator)?;
            }
        }
        Ok(operator)
    }

    fn subtask(&mut self, version: u32, operator: &mut Operator) -> Result<(), ParseError> {
        const WHAT: &str = "a subtask";
        if version == 2 {
            self.long(WHAT)?;
            if self.int(WHAT)? > 0 {
                return Err(self.broken("it has state of Flink 1.1"));
            }
        }
        let sum = &mut operator.bytes;
        // Managed operator state, then raw operator state.
        for _ in 0..2 {
            if self.int(WHAT)? != 0 {
                let bytes = self.operator_state(&mut operator.operator_states)?;
                sum.operator = sum.operator.saturating_add(bytes);
            }
        }
        for _ in 0..2 {
            sum.keyed = sum.keyed.saturating_add(self.keyed(0)?);
        }
        if version >= 3 {
            // Of inputs, then of outputs.
            for _ in 0..2 {
                for _ in 0..self.count("the state of channels")? {
                    sum.channels = sum.channels.saturating_add(self.channel(version)?);
                }
            }
        }
        if version >= 7 {
            self.earlier_checkpoint()?;
        }
        Ok(())
    }

    /// Reads which earlier checkpoint the state of a subtask is of, if it is not of this one.
    fn earlier_checkpoint(&mut self) -> Result<(), ParseError> {
        const WHAT: &str = "the checkpoint of a subtask";
        match self.byte(WHAT)? {
            0 => {}
            1 => {
                let id = self.long(WHAT)?;
                let id = u64::try_from(id).map_err(|_| self.broken(format!("{WHAT} is {id}")))?;
                if self.earlier_checkpoints.len() < NAMES_MAX {
                    self.earlier_checkpoints.insert(id);
                }
            }
            other => return Err(self.unknown(WHAT, other)),
        }
        Ok(())
    }

    /// Reads the Java object at the end, of which only the names in it are used.
    pub(super) fn properties(&self) -> Result<Option<Kind>, ParseError> {
        const WHAT: &str = "the properties at its end";
        let rest = self.rest();
        let Some(object) = rest.strip_prefix(&JAVA_OBJECT) else {
            return Err(if JAVA_OBJECT.starts_with(rest) {
                ParseError::Truncated { what: WHAT }
            } else {
                self.broken("properties were expected there")
            });
        };
        let names = |name: &str| object.windows(name.len()).any(|window| window == name.as_bytes());
        Ok(match (names("SavepointType"), names("CheckpointType")) {
            (true, _) if names("NATIVE") => Some(Kind::NativeSavepoint),
            (true, _) if names("CANONICAL") => Some(Kind::CanonicalSavepoint),
            (true, _) => Some(Kind::Savepoint),
            (false, true) => Some(Kind::Checkpoint),
            (false, false) => None,
        })
    }
}
