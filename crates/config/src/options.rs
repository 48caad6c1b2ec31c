//! Every option that this operator reads or writes: its own (`kubernetes.operator.*`) and Flink's.
//!
//! A table entry is the only definition of an option; its constant is named after its key without the operator's
//! prefix. Names, types and defaults are those of the Java operator and of Flink; names after `formerly` are deprecated
//! but still used. The tables generate the constants, [`crate::catalogue`], [`crate::known`] and `docs/options.md`.

use std::collections::BTreeMap;

type List = Vec<String>;
type TextMap = BTreeMap<String, String>;
type MapList = Vec<TextMap>;

/// Older names of an option: a list of them, or `prefixed` for its key below `kubernetes.operator.`.
macro_rules! former_keys {
    ($key:literal prefixed) => { &[concat!("kubernetes.operator.", $key)] };
    ($key:literal [$($former:literal),+ $(,)?]) => { &[$($former),+] };
}

/// Defines a constant for each option.
macro_rules! constants {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $key:literal
        $(or $default:literal)? $(formerly $former:tt)?;)*) => { $(
        $(#[doc = $doc])*
        #[doc = concat!("\n`", $key, "`")]
        pub const $name: ConfigOption<$type> = ConfigOption::new($key)
            $(.or($default))?
            $(.formerly(former_keys!($key $former)))?;
    )* };
}

/// Defines constants, and a table to find, check and describe the options. Each option begins with when a change takes
/// effect, a variant of [`crate::catalogue::Effect`].
macro_rules! options {
    ($table:ident => $($(#[doc = $doc:literal])+ $effect:ident $name:ident: $type:ty = $key:literal
        $(or $default:literal)? $(formerly $former:tt)?;)*) => {
        constants! { $(
            $(#[doc = $doc])+ $name: $type = $key $(or $default)? $(formerly $former)?;
        )* }

        /// Each option of this module that is more than a constant to the operator.
        pub const $table: &[crate::catalogue::Known] = &[$(crate::catalogue::Known::new(
            &$name,
            crate::catalogue::Effect::$effect,
            concat!($($doc),+).trim_ascii(),
            |config| config.find(&$name).map(drop),
        )),*];
    };
}

/// Defines constants of Flink's options, without a table.
macro_rules! flinks {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $key:literal
        $(or $default:literal)? $(formerly $former:tt)?;)*) => {
        constants! { $(
            $(#[doc = $doc])* $name: $type = $key $(or $default)? $(formerly $former)?;
        )* }

        #[cfg(test)]
        #[test]
        fn every_default_reads() {
            let nothing = crate::FlinkConfig::new();
            $(assert!(nothing.find(&$name).is_ok(), $key);)*
        }
    };
}

mod artifacts;
pub mod autoscaler;
pub mod blue_green;
mod flink;
pub mod metrics;
pub mod node_notice;
mod operator;
mod resource;

pub use artifacts::*;
pub use flink::*;
pub use operator::*;
pub use resource::*;

#[cfg(test)]
mod tests;
