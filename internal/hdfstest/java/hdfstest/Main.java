package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.PrintStream;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.commons.io.FileUtils;

/**
 * Runs one HDFS cluster for the process that started this one. The first line of standard input says what it is made
 * of; each later line is a command, answered when it is done, which may be out of order. The end of the input is the
 * end of the cluster and of its folder, so that it never outlives its parent.
 */
public final class Main {
  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err); // what Hadoop prints is log
    Wire wire = new Wire(System.in, out);
    Spec spec = Wire.JSON.treeToValue(wire.read(), Spec.class);
    Thread start = new Thread(() -> serve(wire, spec), "cluster");
    start.start();
    requests.take(wire);
    end(spec);
  }

  private static final Requests requests = new Requests();

  private static void serve(Wire wire, Spec spec) {
    try {
      MiniCluster cluster = new MiniCluster(spec);
      wire.answer(0, cluster.describe());
      requests.open(new Commands(cluster));
    } catch (Throwable e) {
      e.printStackTrace();
      try {
        wire.refuse(0, e);
      } catch (Exception broken) {
        // The parent is gone; the end of the input ends this process.
      }
    }
  }

  /** Ends the process. Nothing is shut down in order: the folder goes, and with it all that would be kept. */
  private static void end(Spec spec) {
    OwnProcessNode.killAll();
    FileUtils.deleteQuietly(new File(spec.dir));
    // A class archive is written at an ordinary exit only.
    if (Boolean.getBoolean("hdfstest.exit")) {
      System.exit(0);
    }
    Runtime.getRuntime().halt(0);
  }

  /** The commands that come in, each on a thread of its own, so that a slow one holds up no other. */
  private static final class Requests {
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private Commands commands;

    synchronized void open(Commands c) {
      commands = c;
      notifyAll();
    }

    private synchronized Commands commands() throws InterruptedException {
      while (commands == null) {
        wait();
      }
      return commands;
    }

    void take(Wire wire) throws Exception {
      for (JsonNode request; (request = wire.read()) != null; ) {
        JsonNode r = request;
        threads.execute(() -> answer(wire, r));
      }
    }

    private void answer(Wire wire, JsonNode request) {
      long id = request.path("id").asLong();
      try {
        try {
          wire.answer(id, commands().run(request.path("op").asText(), request.path("args")));
        } catch (Throwable e) {
          e.printStackTrace();
          wire.refuse(id, e);
        }
      } catch (Exception broken) {
        broken.printStackTrace();
      }
    }
  }
}
