package io.github.kubectlflink.examples;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;

/**
 * Hands every lane to the reader {@code key % parallelism}, once. Lanes that readers hold are in the
 * readers' part of a checkpoint, so this one keeps only those nobody holds.
 */
final class CounterEnumerator implements SplitEnumerator<CounterSource.Lane, List<CounterSource.Lane>> {
    private final SplitEnumeratorContext<CounterSource.Lane> context;
    private final List<CounterSource.Lane> unassigned;

    CounterEnumerator(SplitEnumeratorContext<CounterSource.Lane> context, List<CounterSource.Lane> unassigned) {
        this.context = context;
        this.unassigned = unassigned;
    }

    @Override
    public void start() {}

    @Override
    public void addReader(int subtask) {
        assign();
    }

    @Override
    public void addSplitsBack(List<CounterSource.Lane> lanes, int subtask) {
        unassigned.addAll(lanes);
        assign();
    }

    private void assign() {
        Iterator<CounterSource.Lane> lanes = unassigned.iterator();
        while (lanes.hasNext()) {
            CounterSource.Lane lane = lanes.next();
            int subtask = lane.key % context.currentParallelism();
            if (context.registeredReaders().containsKey(subtask)) {
                context.assignSplit(lane, subtask);
                lanes.remove();
            }
        }
    }

    @Override
    public void handleSplitRequest(int subtask, String host) {}

    @Override
    public List<CounterSource.Lane> snapshotState(long checkpointId) {
        return new ArrayList<>(unassigned);
    }

    @Override
    public void close() {}
}
