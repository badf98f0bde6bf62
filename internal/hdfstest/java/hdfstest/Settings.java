package hdfstest;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;

/** The settings of a cluster for tests: quick to notice, small blocks, no fixed ports. */
final class Settings {
  private Settings() {}

  /** Users of the service account "agent" may be anybody, from anywhere: agents read as the user who asked. */
  static final String PROXY_USER = "agent";

  static Configuration of(Spec spec, File dir) throws IOException {
    Configuration conf = new HdfsConfiguration();
    conf.set("hadoop.tmp.dir", new File(dir, "tmp").getPath());
    conf.set("dfs.blocksize", "1m");
    conf.set("dfs.namenode.fs-limits.min-block-size", "512");
    conf.setInt("dfs.replication", Math.min(3, Math.max(1, spec.dataNodes)));
    conf.set("fs.permissions.umask-mode", "022");
    conf.set("hadoop.proxyuser." + PROXY_USER + ".hosts", "*");
    conf.set("hadoop.proxyuser." + PROXY_USER + ".users", "*");
    quick(conf);
    if (spec.encrypt) {
      conf.setBoolean("dfs.encrypt.data.transfer", true);
      conf.setBoolean("dfs.block.access.token.enable", true);
    }
    conf.set("dfs.hosts.exclude", exclude(dir).getPath());
    conf.set("hadoop.security.key.provider.path", "jceks://file" + new File(dir, "keys.jceks").getPath());
    return conf;
  }

  /** A heartbeat and a look at missing replicas each second, and no limit on copies that a small cluster can meet. */
  private static void quick(Configuration conf) {
    conf.set("dfs.heartbeat.interval", "1");
    conf.set("dfs.namenode.redundancy.interval.seconds", "1");
    conf.set("dfs.namenode.replication.max-streams", "50");
    conf.set("dfs.namenode.replication.max-streams-hard-limit", "100");
    conf.set("dfs.namenode.replication.work.multiplier.per.iteration", "50");
    conf.set("dfs.namenode.reconstruction.pending.timeout-sec", "5");
    conf.set("dfs.namenode.decommission.interval", "1");
    conf.set("dfs.namenode.redundancy.considerLoad", "false");
    conf.set("dfs.ha.tail-edits.period", "1");
    conf.set("dfs.client.retry.policy.enabled", "false");
    conf.set("ipc.client.connect.max.retries", "3");
  }

  /** The list of DataNodes to take out of service, one "ip:port" a line. */
  static File exclude(File dir) throws IOException {
    File file = new File(dir, "exclude");
    if (!file.exists()) {
      Files.createFile(file.toPath());
    }
    return file;
  }
}
