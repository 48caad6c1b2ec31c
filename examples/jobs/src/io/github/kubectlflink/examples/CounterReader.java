package io.github.kubectlflink.examples;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;

/**
 * Emits one number of each of its lanes per round, and starts rounds at the given rate. All methods run
 * on the task's own thread, so no checkpoint falls between emitting a number and moving its lane on.
 *
 * <p>With a file of the rate it is like a queue that others fill: what could not be emitted in time waits,
 * also while the job is down.
 */
final class CounterReader implements SourceReader<Tuple2<Integer, Long>, CounterSource.Lane> {
    private static final double SECOND = 1000;

    private final Path rateFile;
    private final List<CounterSource.Lane> lanes = new ArrayList<>();
    private final CompletableFuture<Void> lanesAdded = new CompletableFuture<>();
    private int turn;
    // In milliseconds; the gauge is read by another thread.
    private volatile double pace;
    private volatile double nextRound;
    private volatile int lanesHere;
    private long nextLookAtRate;

    CounterReader(int roundsPerSecond, String rateFile, SourceReaderMetricGroup metrics) {
        this.pace = paceOf(roundsPerSecond);
        this.rateFile = rateFile == null ? null : Path.of(rateFile);
        if (rateFile != null) {
            metrics.setPendingRecordsGauge(this::pendingRecords);
        }
    }

    private static double paceOf(int roundsPerSecond) {
        if (roundsPerSecond < 1) {
            throw new IllegalArgumentException("the rate has to be 1 or more, and is " + roundsPerSecond);
        }
        return SECOND / roundsPerSecond;
    }

    @Override
    public void start() {}

    @Override
    public InputStatus pollNext(ReaderOutput<Tuple2<Integer, Long>> output) throws IOException {
        long now = System.currentTimeMillis();
        if (rateFile != null && now >= nextLookAtRate) {
            readRate(now);
            nextLookAtRate = now + TimeUnit.SECONDS.toMillis(1);
        }
        if (lanes.isEmpty() || now < nextRound) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        CounterSource.Lane lane = lanes.get(turn);
        output.collect(Tuple2.of(lane.key, lane.next));
        lanes.set(turn, new CounterSource.Lane(lane.key, lane.next + 1, CounterSource.Lane.NOW));
        turn++;
        if (turn == lanes.size()) {
            turn = 0;
            double next = nextRound + pace;
            // Without a file time lost in a pause is not made up for: a restored job goes on at its usual rate.
            nextRound = rateFile == null ? Math.max(next, System.currentTimeMillis()) : next;
        }
        return InputStatus.MORE_AVAILABLE;
    }

    private void readRate(long now) throws IOException {
        double paceOfFile = paceOf(Integer.parseInt(Files.readString(rateFile).trim()));
        if (paceOfFile != pace) {
            // As many rounds wait as before.
            nextRound = now - Math.max(0, now - nextRound) / pace * paceOfFile;
            pace = paceOfFile;
        }
    }

    private long pendingRecords() {
        return (long) (Math.max(0, System.currentTimeMillis() - nextRound) / pace) * lanesHere;
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        if (lanes.isEmpty()) {
            return lanesAdded;
        }
        long wait = (long) Math.ceil(nextRound - System.currentTimeMillis());
        return wait <= 0
                ? CompletableFuture.completedFuture(null)
                : CompletableFuture.runAsync(
                        () -> {}, CompletableFuture.delayedExecutor(wait, TimeUnit.MILLISECONDS));
    }

    @Override
    public void addSplits(List<CounterSource.Lane> added) {
        for (CounterSource.Lane lane : added) {
            double due = lane.due == CounterSource.Lane.NOW ? System.currentTimeMillis() : lane.due;
            nextRound = lanes.isEmpty() ? due : Math.min(nextRound, due);
            lanes.add(lane);
        }
        lanesHere = lanes.size();
        lanesAdded.complete(null);
    }

    /** Lanes are handed out once and have no end, so there is nothing to wind up. */
    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public List<CounterSource.Lane> snapshotState(long checkpointId) {
        long due = rateFile == null ? CounterSource.Lane.NOW : (long) nextRound;
        List<CounterSource.Lane> saved = new ArrayList<>();
        for (CounterSource.Lane lane : lanes) {
            saved.add(new CounterSource.Lane(lane.key, lane.next, due));
        }
        return saved;
    }

    @Override
    public void close() {}
}
