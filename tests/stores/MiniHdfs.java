import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * An HDFS of one name node and one data node on free ports of this machine, for tests.
 *
 * <p>Arguments: a folder for its data, a file to upload as {@code /jobs/job.jar}, and the file that
 * gets its address once it is ready. It runs until it is killed.
 */
public final class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        var configuration = new HdfsConfiguration();
        // Blocks smaller than the jar: reading crosses from one to the next.
        configuration.setLong("dfs.namenode.fs-limits.min-block-size", 4096);
        configuration.setLong("dfs.blocksize", 65536);
        configuration.set("dfs.permissions.enabled", "true");
        var cluster = new MiniDFSCluster.Builder(configuration, new File(arguments[0]))
                .numDataNodes(1)
                .build();
        cluster.waitActive();
        FileSystem files = cluster.getFileSystem();
        var jar = new org.apache.hadoop.fs.Path("/jobs/job.jar");
        files.copyFromLocalFile(new org.apache.hadoop.fs.Path(arguments[1]), jar);
        var secret = new org.apache.hadoop.fs.Path("/jobs/secret.jar");
        files.copyFromLocalFile(new org.apache.hadoop.fs.Path(arguments[1]), secret);
        files.setPermission(secret, new org.apache.hadoop.fs.permission.FsPermission((short) 0));
        Files.writeString(Path.of(arguments[2]), "hdfs://127.0.0.1:" + cluster.getNameNodePort());
        new CountDownLatch(1).await();
    }
}
