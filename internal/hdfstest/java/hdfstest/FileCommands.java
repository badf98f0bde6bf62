package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.CreateEncryptionZoneFlag;
import org.apache.hadoop.hdfs.client.HdfsAdmin;
import org.apache.hadoop.io.IOUtils;

/** Files and folders, by Hadoop's own client. */
final class FileCommands {
  private static final String KEY = "hdfstest";

  private final MiniCluster cluster;
  private final Map<String, FSDataOutputStream> open = new ConcurrentHashMap<>();

  private FileCommands(MiniCluster cluster) {
    this.cluster = cluster;
  }

  static void add(Map<String, Commands.Command> commands, MiniCluster cluster) {
    FileCommands files = new FileCommands(cluster);
    commands.put("put", files::put);
    commands.put("append", files::append);
    commands.put("close", files::close);
    commands.put("get", files::get);
    commands.put("folder", files::folder);
    commands.put("delete", args -> files.fs(args).delete(path(args), true));
    commands.put("rename", files::rename);
    commands.put("setReplication", args -> files.fs(args).setReplication(path(args), (short) args.path("n").asInt()));
    commands.put("permit", files::permit);
    commands.put("erasureCoding", files::erasureCoding);
    commands.put("quota", files::quota);
    commands.put("snapshot", files::snapshot);
    commands.put("deleteSnapshot", files::deleteSnapshot);
    commands.put("symlink", files::symlink);
    commands.put("encryptionZone", files::encryptionZone);
    commands.put("manyFiles", files::manyFiles);
  }

  private DistributedFileSystem fs(JsonNode args) throws Exception {
    return cluster.fs(args.path("user").asText());
  }

  private static Path path(JsonNode args) {
    return path(args, "path");
  }

  private static Path path(JsonNode args, String name) {
    return new Path(null, null, args.path(name).asText());
  }

  /** Writes a local file to the cluster; with "open" what was written is visible and the file stays open. */
  private Object put(JsonNode args) throws Exception {
    FSDataOutputStream out = fs(args).create(path(args), true, 64 << 10,
        (short) args.path("replication").asInt(), args.path("blockSize").asLong());
    return write(args, out);
  }

  private Object append(JsonNode args) throws Exception {
    return write(args, fs(args).append(path(args), EnumSet.of(CreateFlag.APPEND), 64 << 10, null));
  }

  private Object write(JsonNode args, FSDataOutputStream out) throws IOException {
    try (InputStream in = new FileInputStream(args.path("local").asText())) {
      IOUtils.copyBytes(in, out, 1 << 20, false);
    }
    if (args.path("open").asBoolean()) {
      out.hsync();
      open.put(args.path("path").asText(), out);
    } else {
      out.close();
    }
    return null;
  }

  /** Closes a file that "put" or "append" left open. */
  private Object close(JsonNode args) throws IOException {
    open.remove(args.path("path").asText()).close();
    return null;
  }

  private Object get(JsonNode args) throws Exception {
    try (InputStream in = fs(args).open(path(args));
        OutputStream out = new FileOutputStream(args.path("local").asText())) {
      IOUtils.copyBytes(in, out, 1 << 20, false);
    }
    return null;
  }

  /** A folder that belongs to a user, made by the superuser. */
  private Object folder(JsonNode args) throws Exception {
    DistributedFileSystem fs = cluster.fs("");
    fs.mkdirs(path(args));
    return permit(args);
  }

  private Object permit(JsonNode args) throws Exception {
    DistributedFileSystem fs = cluster.fs("");
    String owner = args.path("owner").asText();
    if (!owner.isEmpty()) {
      fs.setOwner(path(args), owner, owner);
    }
    fs.setPermission(path(args), new FsPermission((short) args.path("mode").asInt()));
    return null;
  }

  @SuppressWarnings("deprecation") // the rename that overwrites is public in FileContext alone
  private Object rename(JsonNode args) throws Exception {
    fs(args).rename(path(args, "from"), path(args, "to"), Rename.OVERWRITE);
    return null;
  }

  private Object erasureCoding(JsonNode args) throws Exception {
    DistributedFileSystem fs = cluster.fs("");
    String policy = args.path("policy").asText();
    fs.enableErasureCodingPolicy(policy);
    fs.setErasureCodingPolicy(path(args), policy);
    return null;
  }

  private Object quota(JsonNode args) throws Exception {
    cluster.fs("").setQuota(path(args), args.path("names").asLong(), args.path("bytes").asLong());
    return null;
  }

  private Object snapshot(JsonNode args) throws Exception {
    DistributedFileSystem fs = cluster.fs("");
    fs.allowSnapshot(path(args));
    return fs.createSnapshot(path(args), args.path("name").asText()).toUri().getPath();
  }

  private Object deleteSnapshot(JsonNode args) throws Exception {
    cluster.fs("").deleteSnapshot(path(args), args.path("name").asText());
    return null;
  }

  @SuppressWarnings("deprecation") // symbolic links are off in Hadoop unless a test asks for them
  private Object symlink(JsonNode args) throws Exception {
    FileSystem.enableSymlinks();
    FileContext.getFileContext(cluster.client()).createSymlink(path(args, "target"), path(args), false);
    return null;
  }

  private Object encryptionZone(JsonNode args) throws Exception {
    if (!new File(cluster.dir, "keys.jceks").exists()) {
      DFSTestUtil.createKey(KEY, cluster.dfs, cluster.active(), cluster.client());
    }
    HdfsAdmin admin = new HdfsAdmin(FileSystem.getDefaultUri(cluster.client()), cluster.client());
    admin.createEncryptionZone(path(args), KEY, EnumSet.noneOf(CreateEncryptionZoneFlag.class));
    return null;
  }

  /** Makes n empty files, named by their numbers, in a folder: several at a time, whose edits the NameNode joins. */
  private Object manyFiles(JsonNode args) throws Exception {
    DistributedFileSystem fs = fs(args);
    Path folder = path(args);
    int n = args.path("n").asInt();
    int threads = 16;
    List<Callable<Void>> shares = new ArrayList<>();
    for (int t = 0; t < threads; t++) {
      int first = t;
      shares.add(() -> {
        for (int i = first; i < n; i += threads) {
          fs.create(new Path(folder, String.format("%06d", i)), false).close();
        }
        return null;
      });
    }
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      for (Future<Void> share : pool.invokeAll(shares)) {
        share.get();
      }
    } finally {
      pool.shutdown();
    }
    return null;
  }
}
