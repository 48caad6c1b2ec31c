package io.github.kubectlflink.examples;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.io.InputStatus;

/**
 * Emits one number of each of its lanes per round, and starts rounds at the given rate. All methods run
 * on the task's own thread, so no checkpoint falls between emitting a number and moving its lane on.
 */
final class CounterReader implements SourceReader<Tuple2<Integer, Long>, CounterSource.Lane> {
    private final long nanosPerRound;
    private final List<CounterSource.Lane> lanes = new ArrayList<>();
    private final CompletableFuture<Void> lanesAdded = new CompletableFuture<>();
    private int turn;
    private long nextRound = System.nanoTime();

    CounterReader(int roundsPerSecond) {
        this.nanosPerRound = TimeUnit.SECONDS.toNanos(1) / roundsPerSecond;
    }

    @Override
    public void start() {}

    @Override
    public InputStatus pollNext(ReaderOutput<Tuple2<Integer, Long>> output) {
        if (lanes.isEmpty() || System.nanoTime() < nextRound) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        CounterSource.Lane lane = lanes.get(turn);
        output.collect(Tuple2.of(lane.key, lane.next));
        lanes.set(turn, new CounterSource.Lane(lane.key, lane.next + 1));
        turn++;
        if (turn == lanes.size()) {
            turn = 0;
            // Time lost in a pause is not made up for: a restored job goes on at its usual rate.
            nextRound = Math.max(nextRound + nanosPerRound, System.nanoTime());
        }
        return InputStatus.MORE_AVAILABLE;
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        if (lanes.isEmpty()) {
            return lanesAdded;
        }
        long wait = nextRound - System.nanoTime();
        return wait <= 0
                ? CompletableFuture.completedFuture(null)
                : CompletableFuture.runAsync(
                        () -> {}, CompletableFuture.delayedExecutor(wait, TimeUnit.NANOSECONDS));
    }

    @Override
    public void addSplits(List<CounterSource.Lane> added) {
        lanes.addAll(added);
        lanesAdded.complete(null);
    }

    /** Lanes are handed out once and have no end, so there is nothing to wind up. */
    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public List<CounterSource.Lane> snapshotState(long checkpointId) {
        return new ArrayList<>(lanes);
    }

    @Override
    public void close() {}
}
