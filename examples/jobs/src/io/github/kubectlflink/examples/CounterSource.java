package io.github.kubectlflink.examples;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Counts in a fixed number of lanes. A lane is a split: it moves between subtasks when the parallelism
 * changes, and takes its next number along.
 */
final class CounterSource implements Source<Tuple2<Integer, Long>, CounterSource.Lane, List<CounterSource.Lane>> {
    private static final long serialVersionUID = 1L;

    private final int lanes;
    private final int recordsPerSecond;
    private final String rateFile;

    /** {@code rateFile} may be null: then the rate is the same for ever. */
    CounterSource(int lanes, int recordsPerSecond, String rateFile) {
        this.lanes = lanes;
        this.recordsPerSecond = recordsPerSecond;
        this.rateFile = rateFile;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Tuple2<Integer, Long>, Lane> createReader(SourceReaderContext context) {
        return new CounterReader(recordsPerSecond, rateFile, context.metricGroup());
    }

    @Override
    public SplitEnumerator<Lane, List<Lane>> createEnumerator(SplitEnumeratorContext<Lane> context) {
        List<Lane> unassigned = new ArrayList<>();
        for (int key = 0; key < lanes; key++) {
            unassigned.add(new Lane(key, 0, Lane.NOW));
        }
        return new CounterEnumerator(context, unassigned);
    }

    @Override
    public SplitEnumerator<Lane, List<Lane>> restoreEnumerator(
            SplitEnumeratorContext<Lane> context, List<Lane> unassigned) {
        return new CounterEnumerator(context, new ArrayList<>(unassigned));
    }

    @Override
    public SimpleVersionedSerializer<Lane> getSplitSerializer() {
        return new LaneSerializer();
    }

    @Override
    public SimpleVersionedSerializer<List<Lane>> getEnumeratorCheckpointSerializer() {
        return new LaneListSerializer();
    }

    /** One sequence of numbers: its key, the number that comes next, and since when that one is due. */
    static final class Lane implements SourceSplit {
        static final long NOW = 0;

        final int key;
        final long next;
        /** In milliseconds since 1970. */
        final long due;

        Lane(int key, long next, long due) {
            this.key = key;
            this.next = next;
            this.due = due;
        }

        @Override
        public String splitId() {
            return String.valueOf(key);
        }
    }

    private static final class LaneSerializer implements SimpleVersionedSerializer<Lane> {
        /** The first one did not say since when a number is due. */
        static final int VERSION = 2;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(Lane lane) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            write(lane, new DataOutputStream(bytes));
            return bytes.toByteArray();
        }

        @Override
        public Lane deserialize(int version, byte[] serialized) throws IOException {
            return read(version, new DataInputStream(new ByteArrayInputStream(serialized)));
        }

        static void write(Lane lane, DataOutputStream out) throws IOException {
            out.writeInt(lane.key);
            out.writeLong(lane.next);
            out.writeLong(lane.due);
        }

        static Lane read(int version, DataInputStream in) throws IOException {
            return new Lane(in.readInt(), in.readLong(), version < VERSION ? Lane.NOW : in.readLong());
        }
    }

    private static final class LaneListSerializer implements SimpleVersionedSerializer<List<Lane>> {
        @Override
        public int getVersion() {
            return LaneSerializer.VERSION;
        }

        @Override
        public byte[] serialize(List<Lane> lanes) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeInt(lanes.size());
            for (Lane lane : lanes) {
                LaneSerializer.write(lane, out);
            }
            return bytes.toByteArray();
        }

        @Override
        public List<Lane> deserialize(int version, byte[] serialized) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(serialized));
            int size = in.readInt();
            List<Lane> lanes = new ArrayList<>(size);
            for (int i = 0; i < size; i++) {
                lanes.add(LaneSerializer.read(version, in));
            }
            return lanes;
        }
    }
}
