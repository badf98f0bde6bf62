package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.metrics2.AbstractMetric;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.impl.MetricsCollectorImpl;
import org.apache.hadoop.metrics2.impl.MetricsRecordImpl;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/** What happens to NameNodes. */
final class NameNodeCommands {
  private NameNodeCommands() {}

  static void add(Map<String, Commands.Command> commands, MiniCluster cluster) {
    commands.put("activate", args -> activate(cluster, args.path("nn").asInt()));
    Map<Integer, HeldPorts> stopped = new ConcurrentHashMap<>();
    commands.put("stopNameNode", args -> stop(cluster, args.path("nn").asInt(), stopped));
    commands.put("restartNameNode", args -> restart(cluster, args.path("nn").asInt(), stopped));
    commands.put("safeMode", args -> cluster.fs("").setSafeMode(
        args.path("on").asBoolean() ? SafeModeAction.ENTER : SafeModeAction.LEAVE, true)); // of the active one
    commands.put("calls", args -> calls(cluster, args));
  }

  /** Makes one NameNode active and each other that runs standby. */
  private static Object activate(MiniCluster cluster, int nn) throws Exception {
    for (int i = 0; i < cluster.dfs.getNumNameNodes(); i++) {
      if (i != nn && cluster.dfs.getNameNode(i) != null && cluster.dfs.getNameNode(i).isActiveState()) {
        cluster.dfs.transitionToStandby(i);
      }
    }
    cluster.dfs.transitionToActive(nn);
    return null;
  }

  private static Object stop(MiniCluster cluster, int nn, Map<Integer, HeldPorts> stopped) throws Exception {
    int port = cluster.dfs.getNameNodePort(nn);
    cluster.dfs.shutdownNameNode(nn);
    stopped.put(nn, new HeldPorts(port));
    return null;
  }

  private static Object restart(MiniCluster cluster, int nn, Map<Integer, HeldPorts> stopped) throws Exception {
    HeldPorts ports = stopped.remove(nn);
    if (ports != null) {
      ports.close();
    }
    cluster.dfs.restartNameNode(nn, false);
    if (cluster.spec.nameNodes == 1) {
      for (Node node : cluster.nodes) {
        if (node.running()) {
          cluster.await(node);
        }
      }
      if (!cluster.ownProcesses()) {
        cluster.dfs.waitActive(nn);
      }
    }
    return null;
  }

  /** How often each call of clients and DataNodes was served by a NameNode since it started. */
  private static Object calls(MiniCluster cluster, JsonNode args) {
    int port = cluster.dfs.getNameNodePort(args.path("nn").asInt());
    MetricsSource source = DefaultMetricsSystem.instance().getSource("RpcDetailedActivityForPort" + port);
    MetricsCollectorImpl collector = new MetricsCollectorImpl();
    source.getMetrics(collector, true);
    Map<String, Long> counts = new TreeMap<>();
    for (MetricsRecordImpl record : collector.getRecords()) {
      for (AbstractMetric metric : record.metrics()) {
        if (metric.name().endsWith("NumOps") && metric.value().longValue() > 0) {
          counts.put(metric.name().substring(0, metric.name().length() - "NumOps".length()), metric.value().longValue());
        }
      }
    }
    return counts;
  }
}
