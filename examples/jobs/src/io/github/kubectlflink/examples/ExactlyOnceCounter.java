package io.github.kubectlflink.examples;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.util.Collector;

/**
 * A job whose output tells whether an upgrade lost or doubled anything.
 *
 * <p>Each of {@code --keys} lanes of the source counts 0, 1, 2, … and keeps its next number in the
 * checkpoint. Behind a shuffle, keyed state counts the records of each lane. The sink writes
 * {@code key,sequence,count} and makes a file visible only once a checkpoint covers it. So for every
 * key the visible lines hold each sequence from 0 to the highest exactly once, and {@code count} is
 * always {@code sequence + 1}; {@code examples/jobs/check} says where that does not hold.
 *
 * <p>Arguments: {@code --output URI} (required), {@code --keys N} (8), {@code --rate N} (20 records a
 * second and key). For a load that changes: {@code --rate-file PATH}, a file with the rate, read once a
 * second, and what could not be emitted in time waits; {@code --work-micros N} (0), how long the count of
 * one record takes.
 */
public final class ExactlyOnceCounter {
    private ExactlyOnceCounter() {}

    public static void main(String[] args) throws Exception {
        Map<String, String> options = options(args);
        String output = options.get("output");
        if (output == null) {
            throw new IllegalArgumentException("--output is missing: give the folder to write to, as a URI");
        }
        int keys = Integer.parseInt(options.getOrDefault("keys", "8"));
        int rate = Integer.parseInt(options.getOrDefault("rate", "20"));
        String rateFile = options.get("rate-file");
        long workMicros = Long.parseLong(options.getOrDefault("work-micros", "0"));

        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.fromSource(
                        new CounterSource(keys, rate, rateFile),
                        WatermarkStrategy.noWatermarks(),
                        "counter",
                        Types.TUPLE(Types.INT, Types.LONG))
                .uid("counter")
                .keyBy(record -> record.f0, Types.INT)
                .process(new CountPerKey(workMicros))
                .returns(Types.STRING)
                .name("count per key")
                .uid("count")
                .sinkTo(
                        FileSink.forRowFormat(new Path(output), new SimpleStringEncoder<String>())
                                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                                .build())
                .name("files")
                .uid("files");
        env.execute("exactly-once-counter");
    }

    private static Map<String, String> options(String[] args) {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i < args.length; i += 2) {
            if (!args[i].startsWith("--") || i + 1 == args.length) {
                throw new IllegalArgumentException("expected `--name value`, found `" + args[i] + "`");
            }
            options.put(args[i].substring(2), args[i + 1]);
        }
        return options;
    }

    /** Counts the records of its key, and writes the count beside the record. It may take its time. */
    private static final class CountPerKey
            extends KeyedProcessFunction<Integer, Tuple2<Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        private final long workMicros;
        private transient ValueState<Long> count;

        CountPerKey(long workMicros) {
            this.workMicros = workMicros;
        }

        @Override
        public void processElement(Tuple2<Integer, Long> record, Context context, Collector<String> out)
                throws Exception {
            if (count == null) {
                // Not in open(): its parameter changed between Flink 1.18 and 2.0.
                count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            }
            if (workMicros > 0) {
                TimeUnit.MICROSECONDS.sleep(workMicros);
            }
            Long before = count.value();
            long now = before == null ? 1 : before + 1;
            count.update(now);
            out.collect(record.f0 + "," + record.f1 + "," + now);
        }
    }
}
