import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * A job of two tasks that counts up to its second argument. A file in the folder of its first argument makes it wait
 * or fail at a place of its life, so that a script can ask Flink about a job there.
 */
public final class Scripted {
    private Scripted() {}

    public static void main(String[] args) throws Exception {
        Gate gate = new Gate(args[0]);
        gate.pass("main");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.fromSource(new Numbers(gate, Long.parseLong(args[1])), WatermarkStrategy.noWatermarks(), "numbers")
                .uid("numbers")
                // Here, so that few records wait between the tasks, which a checkpoint would have to overtake.
                .map(new Pace())
                .rebalance()
                .map(new Step(gate))
                .uid("step")
                .sinkTo(new DiscardingSink<>());
        env.execute("scripted");
    }

    /** Files named {@code fail-PLACE} and {@code hold-PLACE}, and {@code held-PLACE} while the job is held there. */
    private static final class Gate implements java.io.Serializable {
        private static final long serialVersionUID = 1L;

        private final String folder;

        Gate(String folder) {
            this.folder = folder;
        }

        void pass(String place) {
            if (Files.exists(Path.of(folder, "fail-" + place))) {
                throw new IllegalStateException("told to fail at " + place);
            }
            Path hold = Path.of(folder, "hold-" + place);
            if (!Files.exists(hold)) {
                return;
            }
            Path held = Path.of(folder, "held-" + place);
            try {
                Files.writeString(held, "");
                try {
                    wait(hold, place);
                } finally {
                    // Otherwise the next script believes that its job is held already.
                    Files.deleteIfExists(held);
                }
            } catch (IOException failed) {
                throw new UncheckedIOException(failed);
            }
        }

        private static void wait(Path hold, String place) {
            while (Files.exists(hold)) {
                try {
                    Thread.sleep(20);
                } catch (InterruptedException interrupted) {
                    if (!place.equals("close")) {
                        throw new IllegalStateException("interrupted at " + place, interrupted);
                    }
                }
            }
        }
    }

    private static final class Numbers extends NumberSequenceSource {
        private static final long serialVersionUID = 1L;

        private final Gate gate;

        Numbers(Gate gate, long count) {
            super(1, count);
            this.gate = gate;
        }

        private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
            in.defaultReadObject();
            // The JobManager makes the execution graph, and the job is INITIALIZING.
            if (Thread.currentThread().getName().contains("jobmanager-io")) {
                gate.pass("graph");
            }
        }
    }

    private static final class Pace implements MapFunction<Long, Long> {
        private static final long serialVersionUID = 1L;

        @Override
        public Long map(Long value) throws InterruptedException {
            Thread.sleep(10);
            return value;
        }
    }

    private static final class Step extends RichMapFunction<Long, Long>
            implements CheckpointedFunction, CheckpointListener {
        private static final long serialVersionUID = 1L;

        private final Gate gate;

        Step(Gate gate) {
            this.gate = gate;
        }

        @Override
        public Long map(Long value) {
            gate.pass("record");
            return value;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {
            gate.pass("open");
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {
            gate.pass("snapshot");
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            gate.pass("notify");
        }

        @Override
        public void close() {
            gate.pass("close");
        }
    }
}
