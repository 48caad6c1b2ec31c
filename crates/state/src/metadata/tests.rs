//! Flink's own serializers wrote the files of `tests/corpus/metadata`, and those of Flink 2.3 are from a job that ran.
//! The sizes of their operators are compared with Flink's. No Flink writes version 2 any more, so it is put together
//! here; and none writes version 7 yet, so that file is put together as its pull request would write it.

use expect_test::{Expect, expect};

use super::handles::{FOLDERS_MAX, handle};
use super::operators::JAVA_OBJECT;
use super::*;

const V3: &[u8] = include_bytes!("../../../../tests/corpus/metadata/v3--flink-1.20");
const V4: &[u8] = include_bytes!("../../../../tests/corpus/metadata/v4--flink-1.20");
const V5: &[u8] = include_bytes!("../../../../tests/corpus/metadata/v5--flink-2.1-native");
const V6: &[u8] = include_bytes!("../../../../tests/corpus/metadata/v6--flink-2.1-canonical");
const V6_CHECKPOINT: &[u8] =
    include_bytes!("../../../../tests/corpus/metadata/v6--flink-2.1-checkpoint");

/// A checkpoint and savepoints of a job that ran in Flink 2.3: unaligned, with merged files.
const RUN_CHECKPOINT: &[u8] =
    include_bytes!("../../../../tests/corpus/metadata/v6--flink-2.3-checkpoint");
const RUN_NATIVE: &[u8] = include_bytes!("../../../../tests/corpus/metadata/v6--flink-2.3-native");
const RUN_CANONICAL: &[u8] =
    include_bytes!("../../../../tests/corpus/metadata/v6--flink-2.3-canonical");

/// Checkpoint 100, of which one of two subtasks has the state of checkpoint 98.
const V7: &[u8] = include_bytes!("../../../../tests/corpus/metadata/v7--proposed");

/// Sizes that Flink reports for the state of each operator in the files, in bytes.
const SIZES: [u64; 5] = [1107, 1_053_248, 350, 0, 4196];

fn check(bytes: &[u8], expected: Expect) {
    let told = parse(bytes).unwrap();
    let mut lines = vec![format!(
        "version {} checkpoint {} {:?} {:?}",
        told.format_version, told.checkpoint_id, told.kind, told.master_states
    )];
    for it in &told.operators {
        lines.push(format!(
            "{} {:?} {:?} {}/{} subtasks {}+{} {} {:?} {:?}",
            it.id,
            it.name,
            it.uid,
            it.parallelism,
            it.max_parallelism,
            it.subtasks,
            it.finished_subtasks,
            it.is_finished,
            it.operator_states,
            it.bytes
        ));
    }
    let uses = |it: &Use| format!("{} files {} bytes", it.references, it.bytes);
    lines.push(format!("beside {} within {}", uses(&told.files.beside), uses(&told.files.within)));
    lines.extend(told.files.folders.iter().map(|(folder, its)| format!("{folder} {}", uses(its))));
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn what_flink_wrote_reads_as_flink_reads_it() {
    for file in [V3, V4, V5, V6, V6_CHECKPOINT] {
        let told = parse(file).unwrap();
        let sizes: Vec<u64> = told.operators.iter().map(|it| it.bytes.total()).collect();
        assert_eq!(sizes, SIZES[..sizes.len()], "version {}", told.format_version);
        assert!(sizes.len() >= 4);
    }
}

/// The sizes are those that Flink 2.3 reports for the same files.
#[test]
fn flink_2_3_writes_version_6() {
    let file = |file, kind, sizes: [u64; 3]| {
        let told = parse(file).unwrap();
        assert_eq!((told.format_version, told.kind), (6, Some(kind)));
        let names = ["Count", "Source: orders", "Sink: Writer"];
        let uids = ["count", "orders-source", "sink"];
        for (it, (size, (name, uid))) in
            told.operators.iter().zip(sizes.into_iter().zip(names.into_iter().zip(uids)))
        {
            assert_eq!((it.name.as_deref(), it.uid.as_deref()), (Some(name), Some(uid)));
            assert_eq!((it.parallelism, it.bytes.total()), (2, size), "{name}");
        }
        assert_eq!(told.operators.len(), 3);
        told
    };
    file(RUN_CANONICAL, Kind::CanonicalSavepoint, [3528, 546, 0]);
    let native = file(RUN_NATIVE, Kind::NativeSavepoint, [61_089, 546, 0]);
    assert!(native.files.folders.is_empty() && native.files.beside.references > 0);
    let checkpoint = file(RUN_CHECKPOINT, Kind::Checkpoint, [65_020, 78_268, 0]);
    assert!(checkpoint.operators.iter().any(|it| it.bytes.channels > 0));
    // Merged files are in a folder for each subtask, and in one for each TaskManager.
    let merged = checkpoint.files.folders.keys();
    let merged: Vec<_> = merged.map(|it| it.rsplit('/').nth(1)).collect();
    assert_eq!(merged, [Some("shared"), Some("shared"), Some("taskowned")]);
}

#[test]
fn operators_have_names_from_version_5_on() {
    check(
        V3,
        expect![[r#"
        version 3 checkpoint 7 None ["hook"]
        1111111111111111cafe000000000001 None None 2/128 subtasks 2+0 false ["source-offsets"] Bytes { keyed: 0, operator: 1030, channels: 0, coordinator: 77 }
        2222222222222222cafe000000000002 None None 2/256 subtasks 2+0 false [] Bytes { keyed: 1053248, operator: 0, channels: 0, coordinator: 0 }
        3333333333333333cafe000000000003 None None 2/128 subtasks 1+1 false [] Bytes { keyed: 50, operator: 0, channels: 300, coordinator: 0 }
        4444444444444444cafe000000000004 None None 3/128 subtasks 0+0 true [] Bytes { keyed: 0, operator: 0, channels: 0, coordinator: 0 }
        beside 1 files 1000 bytes within 3 files 171 bytes
        s3://lake/changelog 1 files 900 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/chk-7 5 files 5218 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/shared 1 files 1048576 bytes"#]],
    );
    check(
        V5,
        expect![[r#"
        version 5 checkpoint 7 Some(NativeSavepoint) ["hook"]
        1111111111111111cafe000000000001 Some("Source: orders") Some("orders-source") 2/128 subtasks 2+0 false ["source-offsets"] Bytes { keyed: 0, operator: 1030, channels: 0, coordinator: 77 }
        2222222222222222cafe000000000002 Some("Count") None 2/256 subtasks 2+0 false [] Bytes { keyed: 1053248, operator: 0, channels: 0, coordinator: 0 }
        3333333333333333cafe000000000003 Some("Sink") Some("sink") 2/128 subtasks 1+1 false [] Bytes { keyed: 50, operator: 0, channels: 300, coordinator: 0 }
        4444444444444444cafe000000000004 Some("done") Some("done-uid") 3/128 subtasks 0+0 true [] Bytes { keyed: 0, operator: 0, channels: 0, coordinator: 0 }
        beside 1 files 1000 bytes within 3 files 171 bytes
        s3://lake/changelog 1 files 900 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/chk-7 5 files 5218 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/shared 1 files 1048576 bytes"#]],
    );
}

#[test]
fn merged_files_and_channels_of_version_6_are_read() {
    check(
        V6,
        expect![[r#"
        version 6 checkpoint 7 Some(CanonicalSavepoint) ["hook"]
        1111111111111111cafe000000000001 Some("Source: orders") Some("orders-source") 2/128 subtasks 2+0 false ["source-offsets"] Bytes { keyed: 0, operator: 1030, channels: 0, coordinator: 77 }
        2222222222222222cafe000000000002 Some("Count") None 2/256 subtasks 2+0 false [] Bytes { keyed: 1053248, operator: 0, channels: 0, coordinator: 0 }
        3333333333333333cafe000000000003 Some("Sink") Some("sink") 2/128 subtasks 1+1 false [] Bytes { keyed: 50, operator: 0, channels: 300, coordinator: 0 }
        4444444444444444cafe000000000004 Some("done") Some("done-uid") 3/128 subtasks 0+0 true [] Bytes { keyed: 0, operator: 0, channels: 0, coordinator: 0 }
        5555555555555555cafe000000000005 Some("Merged") Some("merged") 1/128 subtasks 1+0 false ["writer-state"] Bytes { keyed: 2048, operator: 2048, channels: 100, coordinator: 0 }
        beside 1 files 1000 bytes within 3 files 171 bytes
        s3://lake/changelog 1 files 900 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/chk-7 6 files 5518 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/shared 1 files 1048576 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/taskowned 2 files 4096 bytes"#]],
    );
}

#[test]
fn the_end_says_what_a_snapshot_was_taken_as() {
    let kind = |bytes| parse(bytes).unwrap().kind;
    assert_eq!(kind(V3), None);
    assert_eq!(kind(V4), Some(Kind::Checkpoint));
    assert_eq!(kind(V5), Some(Kind::NativeSavepoint));
    assert_eq!(kind(V6), Some(Kind::CanonicalSavepoint));
    assert_eq!(kind(V6_CHECKPOINT), Some(Kind::Checkpoint));
}

/// Writes as Java's `DataOutputStream` does.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn text(mut self, value: &str) -> Self {
        self.0.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        self.0.extend(value.as_bytes());
        self
    }

    fn head(version: i32) -> Self {
        Self::default().int(0x4960_672d).int(version).long(41).int(0)
    }
}

/// One operator of version 2 with one subtask, up to its keyed state.
fn version_2() -> Writer {
    Writer::head(2)
        .int(1)
        .long(1)
        .long(2)
        .int(4)
        .int(128)
        .int(1)
        .int(1)
        .int(0)
        .long(-1)
        .int(0)
        .int(0)
        .int(0)
}

#[test]
fn version_2_is_read_as_flink_wrote_it() {
    let file = version_2()
        .byte(handle::KEY_GROUPS)
        .int(0)
        .int(2)
        .long(0)
        .long(9)
        .byte(handle::FILE)
        .long(-1)
        .text("hdfs://n/sp/savepoint-1/a")
        .byte(handle::NULL);
    check(
        &file.0,
        expect![[r#"
        version 2 checkpoint 41 None []
        00000000000000010000000000000002 None None 4/128 subtasks 1+0 false [] Bytes { keyed: 0, operator: 0, channels: 0, coordinator: 0 }
        beside 0 files 0 bytes within 0 files 0 bytes
        hdfs://n/sp/savepoint-1 1 files 0 bytes"#]],
    );
}

#[test]
fn the_earlier_checkpoints_of_version_7_are_reported() {
    check(
        V7,
        expect![[r#"
        version 7 checkpoint 100 Some(Checkpoint) []
        00000000000000010000000000000002 Some("Map") Some("map") 2/128 subtasks 2+0 false [] Bytes { keyed: 800, operator: 0, channels: 0, coordinator: 0 }
        beside 0 files 0 bytes within 0 files 0 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/chk-100 1 files 500 bytes
        s3://lake/checkpoints/0123456789abcdef0123456789abcdef/chk-98 1 files 300 bytes"#]],
    );
    let told = parse(V7).unwrap();
    assert_eq!(told.earlier_checkpoints, [98].into());
    assert_eq!(parse(V6_CHECKPOINT).unwrap().earlier_checkpoints, [].into());
}

/// As long as no release has version 7, another form of it is new and not broken.
#[test]
fn what_a_newer_flink_may_have_written_is_not_broken() {
    let with_version = |file: &[u8], version: u8| {
        let mut file = file.to_vec();
        file[7] = version;
        file
    };
    for file in [with_version(V6, 7), with_version(V6_CHECKPOINT, 7), V7[..V7.len() - 60].to_vec()]
    {
        let error = parse(&file).unwrap_err();
        assert!(matches!(error, ParseError::Proposed(_)), "{error}");
        assert!(error.to_string().contains("version 7 is not as it was proposed"), "{error}");
        assert_eq!(unknown(&file), Some(error));
    }
    for version in [8, 99] {
        let file = with_version(V7, version);
        let error = ParseError::Version { version: version.into() };
        assert_eq!((parse(&file), unknown(&file)), (Err(error.clone()), Some(error)));
    }
    for file in [b"PK".as_slice(), V7, V6, &V6[..100]] {
        assert_eq!(unknown(file), None);
    }
}

#[test]
fn what_is_not_metadata_is_distinguished_from_what_is_broken_or_newer() {
    let error = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert_eq!(
        error(b"PK\x03\x04 a jar"),
        "it is not the metadata of a savepoint or checkpoint: it does not start with the magic number"
    );
    assert_eq!(error(b""), error(b"Ii"));
    assert_eq!(
        error(&Writer::head(8).0),
        "its format version 8 is not supported, only 2 to 7 are: a newer Flink wrote it"
    );
    assert!(error(&Writer::head(1).0).ends_with("Flink before 1.3 wrote it"));
    assert_eq!(error(&V6[..8]), "it is incomplete: it ends within the checkpoint's id");
    let negative = Writer::default().int(0x4960_672d).int(3).long(-2).0;
    assert_eq!(error(&negative), "it is corrupt at byte 16: the checkpoint's id is -2");
    let many = Writer::head(3).int(i32::MAX).0;
    assert_eq!(error(&many), "it is corrupt at byte 24: it claims to have 2147483647 operators");
}

#[test]
fn every_beginning_of_a_file_is_incomplete() {
    for file in [V3, V4, V5, V6, RUN_CHECKPOINT] {
        // The names at the end are searched for anywhere in it.
        let end = file.windows(4).rposition(|it| it == JAVA_OBJECT).map_or(file.len(), |at| at + 4);
        for length in 4..end {
            let told = parse(&file[..length]);
            assert!(matches!(told, Err(ParseError::Truncated { .. })), "{length}: {told:?}");
        }
    }
}

#[test]
fn counts_and_nesting_are_not_believed() {
    let error = |file: Writer| parse(&file.0).unwrap_err().to_string();
    let groups = version_2().byte(handle::KEY_GROUPS).int(0).int(i32::MAX).long(0);
    assert_eq!(error(groups), "it is incomplete: it ends within groups of keys");
    let mut deep = version_2().byte(handle::KEY_GROUPS).int(0).int(0);
    for _ in 0..100_000 {
        deep = deep.byte(handle::KEY_GROUPS).int(0).int(0);
    }
    assert!(error(deep).ends_with("its handles are nested too deeply"));
    let escape = version_2()
        .byte(handle::KEY_GROUPS)
        .int(0)
        .int(0)
        .byte(handle::RELATIVE_FILE)
        .text("a/../../\u{1b}[2J")
        .long(1);
    assert!(error(escape).ends_with("`a/../../\u{fffd}[2J` is not a file in its directory"));
}

#[test]
fn names_cannot_move_the_cursor() {
    let told = Writer::head(5).int(1).text("a\u{1b}[2Jb\n").text("").long(1).long(2).int(1).int(1);
    let told = told.byte(handle::NULL).int(-1).0;
    let told = parse(&[&told[..], &JAVA_OBJECT].concat()).unwrap();
    assert_eq!(told.operators[0].name.as_deref(), Some("a\u{fffd}[2Jb\u{fffd}"));
    assert_eq!(told.operators[0].uid, None);
    assert!(told.operators[0].is_finished);
}

#[test]
fn files_are_outside_unless_they_are_below_the_metadata() {
    let folder = "s3://lake/checkpoints/0123456789abcdef0123456789abcdef";
    let files = parse(V6).unwrap().files;
    let outside = |folder: &str| files.outside(folder).references;
    let all: u64 = files.folders.values().map(|it| it.references).sum();
    assert_eq!(outside("s3://other/place"), all);
    assert_eq!(outside("s3://lake/check"), all, "a name that only begins alike");
    assert_eq!(outside(folder), 1, "the changelog");
    assert_eq!(outside(&folder.replace("s3:", "s3a:")), 1);
    // The file that is shared with other checkpoints, those merged with others, and the changelog.
    assert_eq!(outside(&format!("{folder}/chk-7/")), 4);
}

#[test]
fn no_changed_byte_makes_it_panic_or_keep_more_than_there_is() {
    for file in [V4, V5, V6] {
        let mut changed = file.to_vec();
        for (at, &byte) in file.iter().enumerate() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                changed[at] = value;
                if let Ok(told) = parse(&changed) {
                    assert!(told.operators.len() <= 5 && told.files.folders.len() <= FOLDERS_MAX);
                }
            }
            changed[at] = byte;
        }
    }
}
