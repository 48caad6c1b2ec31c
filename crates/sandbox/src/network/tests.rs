use super::*;

#[test]
fn first_block_is_taken_when_nothing_is_in_the_way() {
    assert_eq!(Network::free(&["default", "192.0.2.0/24"]), Some(Network::new(10, 200)));
}

#[test]
fn block_with_any_address_in_use_is_passed_over() {
    for route in ["10.200.0.0/16", "10.200.255.0/30", "10.200.7.7", "10.200.0.0/15"] {
        let free = Network::free(&[route]).unwrap();
        assert!(!free.block().starts_with("10.200."), "{route}: {}", free.block());
    }
    assert_eq!(Network::free(&["10.200.0.0/15"]), Some(Network::new(10, 202)));
}

#[test]
fn wide_route_moves_the_network_to_another_range() {
    assert_eq!(Network::free(&["10.0.0.0/8"]), Some(Network::new(172, 16)));
    assert_eq!(Network::free(&["10.0.0.0/8", "172.16.0.0/12"]), None);
}

#[test]
fn default_route_in_numbers_does_not_count() {
    assert_eq!(Network::free(&["0.0.0.0/0"]), Some(Network::new(10, 200)));
}

#[test]
fn parts_of_a_block_do_not_overlap() {
    let network = Network::new(10, 201);
    let pods = range(&network.pods()).unwrap();
    let services = range(&network.services()).unwrap();
    let link = range(&format!("{}/30", network.host())).unwrap();
    assert!(pods.1 < services.0 && services.1 < link.0);
    assert_eq!(link, range(&format!("{}/30", network.node())).unwrap());
    assert!(Network::new(172, 254).link().len() <= 15);
}

#[test]
fn destinations_are_found_behind_types() {
    let text = "default via 192.0.2.1 dev eth0\n192.0.2.0/24 dev eth0 proto kernel\n\
                local 10.1.2.3 dev lo table local\nbroadcast 10.1.2.255 dev eth0 table local\n";
    assert_eq!(destinations(text), ["default", "192.0.2.0/24", "10.1.2.3", "10.1.2.255"]);
}

#[test]
fn only_three_commands_touch_the_host() {
    let network = Network::new(10, 200);
    let commands = network.commands(ProcessId { pid: 77, started: 1 });
    let host: Vec<_> = commands.host.iter().map(|words| words.join(" ")).collect();
    assert_eq!(
        host,
        [
            "link add flink-10-200 type veth peer name uplink netns 77",
            "address add 10.200.255.1/30 dev flink-10-200",
            "link set flink-10-200 up",
        ]
    );
}
