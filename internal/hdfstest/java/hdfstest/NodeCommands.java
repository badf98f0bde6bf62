package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo.AdminStates;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.metrics2.AbstractMetric;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.impl.MetricsCollectorImpl;
import org.apache.hadoop.metrics2.impl.MetricsRecordImpl;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/** What happens to DataNodes. */
final class NodeCommands {
  private NodeCommands() {}

  static void add(Map<String, Commands.Command> commands, MiniCluster cluster) {
    commands.put("nodes", args -> cluster.describeNodes());
    commands.put("kill", args -> kill(cluster, args));
    commands.put("leave", args -> leave(cluster, args));
    commands.put("restart", args -> restart(cluster, args));
    commands.put("bury", args -> bury(cluster, args));
    commands.put("decommission", args -> decommission(cluster, args));
    commands.put("served", args -> served(cluster));
  }

  private static Node node(MiniCluster cluster, JsonNode args) {
    return cluster.nodes.get(args.path("dn").asInt());
  }

  private static Object kill(MiniCluster cluster, JsonNode args) throws Exception {
    node(cluster, args).kill();
    return null;
  }

  private static Object leave(MiniCluster cluster, JsonNode args) throws Exception {
    node(cluster, args).leave();
    return null;
  }

  private static Object restart(MiniCluster cluster, JsonNode args) throws Exception {
    Node node = node(cluster, args);
    node.start(args.path("samePort").asBoolean());
    cluster.await(node);
    return null;
  }

  /** Makes every NameNode notice at once that a node is dead, which takes it minutes otherwise. */
  private static Object bury(MiniCluster cluster, JsonNode args) throws Exception {
    Node node = node(cluster, args);
    if (node.running()) {
      throw new IOException("the DataNode runs: its next heartbeat would revive it");
    }
    cluster.dfs.setDataNodeDead(node.id());
    return null;
  }

  /** Takes the listed nodes out of service, and all others back, and waits for it. */
  private static Object decommission(MiniCluster cluster, JsonNode args) throws Exception {
    List<String> lines = new ArrayList<>();
    List<Integer> out = new ArrayList<>();
    for (JsonNode dn : args.path("dns")) {
      out.add(dn.asInt());
      lines.add(cluster.nodes.get(dn.asInt()).id().getXferAddr());
    }
    Files.write(Settings.exclude(cluster.dir).toPath(), lines);
    for (int i = 0; i < cluster.dfs.getNumNameNodes(); i++) {
      if (cluster.dfs.getNameNode(i) != null) {
        var manager = cluster.dfs.getNamesystem(i).getBlockManager().getDatanodeManager();
        manager.refreshNodes(cluster.dfs.getConfiguration(i));
      }
    }
    for (int i = 0; i < cluster.nodes.size(); i++) {
      awaitState(cluster, i, out.contains(i) ? AdminStates.DECOMMISSIONED : AdminStates.NORMAL);
    }
    return null;
  }

  /** How many reads the DataNodes of this process have served since they started, and how many bytes with them, checksums included. */
  private static Object served(MiniCluster cluster) {
    long reads = 0;
    long bytes = 0;
    for (DataNode node : cluster.dfs.getDataNodes()) {
      MetricsSource source = DefaultMetricsSystem.instance().getSource(node.getMetrics().name());
      MetricsCollectorImpl collector = new MetricsCollectorImpl();
      source.getMetrics(collector, true);
      for (MetricsRecordImpl record : collector.getRecords()) {
        for (AbstractMetric metric : record.metrics()) {
          switch (metric.name()) {
            case "ReadBlockOpNumOps" -> reads += metric.value().longValue();
            case "BytesRead" -> bytes += metric.value().longValue();
            default -> { }
          }
        }
      }
    }
    return Map.of("reads", reads, "bytes", bytes);
  }

  private static void awaitState(MiniCluster cluster, int dn, AdminStates want) throws Exception {
    var manager = cluster.dfs.getNamesystem(cluster.active()).getBlockManager().getDatanodeManager();
    DatanodeDescriptor node = manager.getDatanode(cluster.nodes.get(dn).id().getDatanodeUuid());
    while (node.getAdminState() != want) {
      Thread.sleep(20);
    }
  }
}
