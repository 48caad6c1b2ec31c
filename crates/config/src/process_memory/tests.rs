use super::*;

fn config(entries: &[(&str, &str)]) -> FlinkConfig {
    entries.iter().copied().collect()
}

#[test]
fn a_stated_process_size_counts_alone() {
    let config = config(&[
        ("jobmanager.memory.process.size", "2g"),
        ("jobmanager.memory.flink.size", "9g"),
        ("taskmanager.memory.process.size", "3g"),
    ]);
    assert_eq!(job_manager(&config).unwrap().to_string(), "2 gb");
    assert_eq!(task_manager(&config).unwrap().to_string(), "3 gb");
}

#[test]
fn parts_add_up_to_the_process() {
    // 1024 + 128 off-heap + 256 metaspace = 1408; the overhead's tenth is below its minimum of 192.
    let heap = config(&[("jobmanager.memory.heap.size", "1g")]);
    assert_eq!(job_manager(&heap).unwrap().to_string(), "1600 mb");
    // 8192 + 256 = 8448, a ninth of it is the tenth of the whole.
    let flink = config(&[("taskmanager.memory.flink.size", "8g")]);
    assert_eq!(task_manager(&flink).unwrap().mebibytes(), 8448 + 938);
    // 1024 + 512 + 2 × 128 = 1792, network a ninth of it = 199, then 2247 with metaspace.
    let parts = config(&[
        ("taskmanager.memory.task.heap.size", "1g"),
        ("taskmanager.memory.managed.size", "512m"),
    ]);
    assert_eq!(task_manager(&parts).unwrap().mebibytes(), 2496);
}

#[test]
fn the_legacy_heap_size_is_the_process_memory() {
    let size = |entries: &[(&str, &str)]| job_manager(&config(entries)).unwrap().to_string();
    assert_eq!(size(&[("jobmanager.heap.size", "1g")]), "1 gb");
    assert_eq!(size(&[("jobmanager.heap.mb", "768")]), "768 mb");
}

#[test]
fn unknown_memory_is_an_error_that_names_the_field() {
    let error = job_manager(&config(&[])).unwrap_err().to_string();
    assert!(error.contains("spec.jobManager.resource.memory"), "{error}");
    let error = task_manager(&config(&[("taskmanager.memory.task.heap.size", "1g")])).unwrap_err();
    assert!(error.to_string().contains("spec.taskManager.resource.memory"), "{error}");
}
