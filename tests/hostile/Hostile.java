import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What a tenant can run in its pods: {@code jobmanager} answers as the JobManager of a running job, with as much as an
 * answer may hold, and {@code store JAR} is an S3 store on three ports: with this jar, with none for anybody, and with
 * something else under the name of any jar.
 */
public final class Hostile {
    private static final int SIZE = 15_000_000;

    public static void main(String[] words) throws IOException {
        if (words[0].equals("jobmanager")) {
            String id = jobId();
            byte[] graph = graph(id);
            byte[] noise = ("[\"" + "x".repeat(SIZE) + "\"]").getBytes(StandardCharsets.UTF_8);
            serve(8081, exchange -> {
                String path = exchange.getRequestURI().getPath();
                if (path.equals("/jobs/overview")) {
                    answer(exchange, 200, overview(id).getBytes(StandardCharsets.UTF_8));
                } else {
                    answer(exchange, 200, path.equals("/jobs/" + id) ? graph : noise);
                }
            });
            return;
        }
        byte[] jar = Files.readAllBytes(Path.of(words[1]));
        serve(9000, exchange -> answer(exchange, 200, jar));
        serve(9001, exchange -> answer(exchange, 403, "<Error><Code>AccessDenied</Code></Error>".getBytes(StandardCharsets.UTF_8)));
        serve(9002, exchange -> answer(exchange, 200, "not the jar of the others".getBytes(StandardCharsets.UTF_8)));
    }

    private static void serve(int port, HttpHandler handler) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 0);
        server.createContext("/", handler);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
    }

    private static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
        System.out.println(exchange.getRequestMethod() + " " + exchange.getRequestURI() + " " + status);
        exchange.getResponseHeaders().set("ETag", "\"" + body.length + "\"");
        exchange.getResponseHeaders().set("Last-Modified", "Sat, 01 Nov 2025 00:00:00 GMT");
        boolean isHead = exchange.getRequestMethod().equals("HEAD");
        exchange.getRequestBody().readAllBytes();
        exchange.sendResponseHeaders(status, isHead ? -1 : body.length);
        if (!isHead) {
            exchange.getResponseBody().write(body);
        }
        exchange.close();
    }

    /** The id that the operator has given the job, from the configuration of Flink. */
    private static String jobId() throws IOException {
        Pattern id = Pattern.compile("job-id\"?: *[\"']?([0-9a-f]{32})");
        try (Stream<Path> files = Files.list(Path.of("/opt/flink/conf"))) {
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
                Matcher found = id.matcher(Files.readString(file, StandardCharsets.ISO_8859_1));
                if (found.find()) {
                    return found.group(1);
                }
            }
        }
        throw new IOException("no job id");
    }

    private static String overview(String id) {
        long now = System.currentTimeMillis();
        return "{\"jobs\":[{\"jid\":\"" + id + "\",\"name\":\"job\",\"start-time\":" + (now - 60_000)
            + ",\"end-time\":-1,\"duration\":60000,\"state\":\"RUNNING\",\"last-modification\":" + (now - 60_000)
            + ",\"tasks\":{\"running\":1,\"canceling\":0,\"canceled\":0,\"total\":1,\"created\":0,\"scheduled\":0,"
            + "\"deploying\":0,\"reconciling\":0,\"finished\":0,\"initializing\":0,\"failed\":0}}]}";
    }

    /** A job of as many vertices as fit, each of which reads from the next one. */
    private static byte[] graph(String id) {
        StringBuilder vertices = new StringBuilder();
        StringBuilder nodes = new StringBuilder();
        for (int number = 0; vertices.length() + nodes.length() < SIZE; number++) {
            String comma = number == 0 ? "" : ",";
            vertices.append(comma).append(String.format(
                "{\"id\":\"%032x\",\"name\":\"v\",\"maxParallelism\":2147483647,\"parallelism\":1,\"status\":\"RUNNING\",\"tasks\":{}}",
                number));
            nodes.append(comma).append(String.format(
                "{\"id\":\"%032x\",\"parallelism\":1,\"inputs\":[{\"num\":0,\"id\":\"%032x\",\"ship_strategy\":\"HASH\"}]}",
                number, number + 1));
        }
        String head = "{\"jid\":\"" + id + "\",\"name\":\"job\",\"state\":\"RUNNING\",\"start-time\":1,\"end-time\":-1,\"duration\":1,"
            + "\"now\":2,\"timestamps\":{\"RUNNING\":1},";
        return (head + "\"vertices\":[" + vertices + "],\"plan\":{\"jid\":\"" + id + "\",\"name\":\"job\",\"nodes\":[" + nodes + "]}}")
            .getBytes(StandardCharsets.UTF_8);
    }
}
