import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * An HDFS of one name node and one data node on free ports, which takes nobody without a login by Kerberos, for tests.
 *
 * <p>Arguments: a folder for its data, the address to listen at, its principal and its keytab, the user who alone may
 * use its folder {@code /flink}, and the file that gets its address once it is ready. It runs until it is killed.
 */
public final class SecureHdfs {
    public static void main(String[] arguments) throws Exception {
        String folder = arguments[0];
        String host = arguments[1];
        String principal = arguments[2];
        String keytab = arguments[3];
        var configuration = new HdfsConfiguration();
        configuration.set("hadoop.security.authentication", "kerberos");
        configuration.set("hadoop.security.authorization", "true");
        for (String key : List.of("dfs.namenode", "dfs.datanode", "dfs.web.authentication")) {
            configuration.set(key + ".kerberos.principal", principal);
        }
        for (String key : List.of(
                "dfs.namenode.keytab.file", "dfs.datanode.keytab.file", "dfs.web.authentication.kerberos.keytab")) {
            configuration.set(key, keytab);
        }
        configuration.set("dfs.block.access.token.enable", "true");
        configuration.set("dfs.data.transfer.protection", "authentication");
        // Its web pages go without TLS, as nobody looks at them.
        configuration.set("ignore.secure.ports.for.testing", "true");
        configuration.set("dfs.namenode.name.dir", "file://" + folder + "/name");
        configuration.set("dfs.datanode.data.dir", "file://" + folder + "/data");
        configuration.set("dfs.namenode.rpc-address", host + ":0");
        configuration.set("dfs.namenode.http-address", host + ":0");
        configuration.set("dfs.datanode.address", host + ":0");
        configuration.set("dfs.datanode.ipc.address", host + ":0");
        configuration.set("dfs.datanode.http.address", host + ":0");
        configuration.set("dfs.datanode.hostname", host);
        configuration.set("dfs.namenode.datanode.registration.ip-hostname-check", "false");
        configuration.set("dfs.replication", "1");
        configuration.set("fs.defaultFS", "hdfs://" + host + ":0");
        UserGroupInformation.setConfiguration(configuration);
        // Both nodes are in this process, and count under the same names.
        DefaultMetricsSystem.setMiniClusterMode(true);
        DFSTestUtil.formatNameNode(configuration);
        var nameNode = new NameNode(configuration);
        String address = host + ":" + nameNode.getNameNodeAddress().getPort();
        configuration.set("fs.defaultFS", "hdfs://" + address);
        configuration.set("dfs.namenode.rpc-address", address);
        DataNode.instantiateDataNode(new String[0], configuration).runDatanodeDaemon();
        while (nameNode.getNamesystem().getNumLiveDataNodes() == 0) {
            Thread.sleep(100);
        }
        UserGroupInformation.loginUserFromKeytab(principal, keytab);
        FileSystem files = FileSystem.get(configuration);
        var state = new org.apache.hadoop.fs.Path("/flink");
        files.mkdirs(state);
        files.setOwner(state, arguments[4], arguments[4]);
        files.setPermission(state, new FsPermission((short) 0700));
        var ready = Path.of(arguments[5]);
        var unfinished = Path.of(arguments[5] + ".unfinished");
        Files.writeString(unfinished, "hdfs://" + address);
        Files.move(unfinished, ready);
        new CountDownLatch(1).await();
    }
}
