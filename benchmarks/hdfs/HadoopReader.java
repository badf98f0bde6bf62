import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Hadoop's own client: a racer with the same tasks as main.go. Run as a source file, with Hadoop on the class path. */
public final class HadoopReader {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final URI uri;
  private final Configuration conf;
  private final FileSystem fs;

  private HadoopReader(String url, String conf) throws Exception {
    this.uri = new URI(url);
    this.conf = new Configuration();
    this.conf.addResource(new Path(conf, "core-site.xml"));
    this.conf.addResource(new Path(conf, "hdfs-site.xml"));
    this.fs = FileSystem.newInstance(uri, this.conf);
  }

  public static void main(String[] args) throws Exception {
    HadoopReader racer = new HadoopReader(args[0], args[1]);
    var os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      JsonNode task = JSON.readTree(line);
      ObjectNode result = JSON.createObjectNode();
      long begin = System.nanoTime();
      long cpu = os.getProcessCpuTime();
      racer.run(task, result);
      result.put("cpu", (os.getProcessCpuTime() - cpu) / 1e9);
      if (!result.has("wall")) {
        result.put("wall", (System.nanoTime() - begin) / 1e9);
      }
      System.out.println(result);
    }
    System.exit(0);
  }

  private void run(JsonNode task, ObjectNode result) throws Exception {
    switch (task.get("do").asText()) {
      case "stream" -> result.put("bytes", whole(fs, task));
      case "ranges", "many" -> ranges(task, result);
      case "readers" -> readers(task, result);
      case "digest" -> digest(task, result);
      default -> throw new IllegalArgumentException(task.toString());
    }
  }

  private static long whole(FileSystem fs, JsonNode task) throws Exception {
    byte[] buf = new byte[task.get("step").asInt()];
    long bytes = 0;
    try (FSDataInputStream in = fs.open(new Path(task.get("path").asText()))) {
      for (int n; (n = in.read(buf)) > 0; ) {
        bytes += n;
      }
    }
    return bytes;
  }

  private void ranges(JsonNode task, ObjectNode result) throws Exception {
    JsonNode ranges = task.get("ranges");
    Map<String, FSDataInputStream> files = new HashMap<>();
    for (JsonNode r : ranges) {
      String path = r.get("path").asText();
      if (!files.containsKey(path)) {
        files.put(path, fs.open(new Path(path)));
      }
    }
    ExecutorService pool = Executors.newFixedThreadPool(task.get("at_once").asInt());
    long begin = System.nanoTime();
    List<Future<Double>> all = new ArrayList<>();
    for (JsonNode r : ranges) {
      all.add(pool.submit(() -> {
        long start = System.nanoTime();
        byte[] buf = new byte[r.get("len").asInt()];
        files.get(r.get("path").asText()).readFully(r.get("off").asLong(), buf);
        return (System.nanoTime() - start) / 1e6;
      }));
    }
    var millis = result.putArray("millis");
    for (Future<Double> f : all) {
      millis.add(f.get());
    }
    result.put("wall", (System.nanoTime() - begin) / 1e9);
    pool.shutdown();
    for (FSDataInputStream in : files.values()) {
      in.close();
    }
  }

  private void readers(JsonNode task, ObjectNode result) throws Exception {
    int count = task.get("count").asInt();
    List<FileSystem> systems = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      systems.add(FileSystem.newInstance(uri, conf));
    }
    ExecutorService pool = Executors.newFixedThreadPool(count);
    long begin = System.nanoTime();
    List<Future<Long>> all = new ArrayList<>();
    for (FileSystem one : systems) {
      all.add(pool.submit(() -> whole(one, task)));
    }
    long bytes = 0;
    for (Future<Long> f : all) {
      bytes += f.get();
    }
    result.put("wall", (System.nanoTime() - begin) / 1e9);
    result.put("bytes", bytes);
    pool.shutdown();
    for (FileSystem one : systems) {
      one.close();
    }
  }

  private void digest(JsonNode task, ObjectNode result) throws Exception {
    MessageDigest sha = MessageDigest.getInstance("SHA-256");
    for (JsonNode r : task.get("ranges")) {
      byte[] buf = new byte[r.get("len").asInt()];
      try (FSDataInputStream in = fs.open(new Path(r.get("path").asText()))) {
        in.readFully(r.get("off").asLong(), buf);
      }
      sha.update(buf);
    }
    result.put("sha256", HexFormat.of().formatHex(sha.digest()));
  }
}
