package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.hdfs.protocol.DatanodeID;

/** A DataNode in a process of its own, which can be killed, stopped by a signal, and whose CPU time can be read. */
final class OwnProcessNode implements Node {
  private static final Set<Process> RUNNING = ConcurrentHashMap.newKeySet();

  private final List<String> java;
  private final File site;
  private final File folder;
  private final String host;
  private Process process;
  private DatanodeID id;
  private HeldPorts port;

  OwnProcessNode(List<String> java, File site, File folder, String host) throws IOException {
    this.java = java;
    this.site = site;
    this.folder = folder;
    this.host = host;
    launch();
  }

  /** Ends all of them, also those stopped by a signal. */
  static void killAll() {
    RUNNING.forEach(Process::destroyForcibly);
  }

  /** Starts the process; join waits until it serves. So several start at the same time. */
  private void launch() throws IOException {
    List<String> command = new ArrayList<>(java);
    command.add(DataNodeMain.class.getName());
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    RUNNING.add(process);
    Map<String, String> request = new LinkedHashMap<>();
    request.put("site", site.getPath());
    request.put("dfs.datanode.data.dir", folder.toURI().toString());
    request.put("dfs.datanode.hostname", host);
    request.put("dfs.datanode.address", "127.0.0.1:" + (id == null ? 0 : id.getXferPort()));
    request.put("dfs.datanode.http.address", "127.0.0.1:0");
    request.put("dfs.datanode.ipc.address", "127.0.0.1:0");
    new Wire(process.getInputStream(), new PrintStream(process.getOutputStream())).write(request);
  }

  void join() throws IOException {
    JsonNode answer = new Wire(process.getInputStream(), null).read();
    if (answer == null) {
      throw new IOException("a DataNode's process ended at its start: see the log");
    }
    id = new DatanodeID("127.0.0.1", host, answer.path("uuid").asText(), answer.path("xferPort").asInt(),
        answer.path("infoPort").asInt(), 0, answer.path("ipcPort").asInt());
  }

  @Override
  public DatanodeID id() {
    return id;
  }

  @Override
  public long pid() {
    return process.pid();
  }

  @Override
  public List<File> folders() {
    return List.of(folder);
  }

  @Override
  public boolean running() {
    return process.isAlive();
  }

  @Override
  public void kill() throws IOException, InterruptedException {
    process.destroyForcibly().waitFor();
    RUNNING.remove(process);
    port = new HeldPorts(id.getXferPort());
  }

  @Override
  public void leave() throws IOException {
    throw new IOException("not for a DataNode that is a process of its own");
  }

  @Override
  public void start(boolean samePort) throws IOException {
    if (running()) {
      throw new IOException("the DataNode runs already");
    }
    if (samePort) {
      port.close();
    } else {
      id = null;
    }
    launch();
    join();
    port.close();
  }
}
