package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;

/** Where blocks are, and moving them. */
final class BlockCommands {
  private BlockCommands() {}

  static void add(Map<String, Commands.Command> commands, MiniCluster cluster) {
    commands.put("locations", args -> locations(cluster, args.path("path").asText()));
    commands.put("waitReplication", args -> waitReplication(cluster, args));
    commands.put("move", args -> move(cluster, args));
  }

  private static LocatedBlocks located(MiniCluster cluster, String path) throws IOException {
    LocatedBlocks blocks = cluster.dfs.getNameNode(cluster.active()).getRpcServer()
        .getBlockLocations(path, 0, Long.MAX_VALUE);
    return Objects.requireNonNull(blocks, () -> path + " is not a file");
  }

  private static Object locations(MiniCluster cluster, String path) throws IOException {
    List<Object> all = new ArrayList<>();
    for (LocatedBlock block : located(cluster, path).getLocatedBlocks()) {
      Map<String, Object> b = new LinkedHashMap<>();
      b.put("pool", block.getBlock().getBlockPoolId());
      b.put("id", block.getBlock().getBlockId());
      b.put("generation", block.getBlock().getGenerationStamp());
      b.put("offset", block.getStartOffset());
      b.put("length", block.getBlockSize());
      b.put("corrupt", block.isCorrupt());
      List<Integer> nodes = new ArrayList<>();
      for (DatanodeInfo node : block.getLocations()) {
        nodes.add(cluster.place(node));
      }
      b.put("nodes", nodes);
      all.add(b);
    }
    return all;
  }

  /** Waits until each block of a file has exactly n locations. */
  private static Object waitReplication(MiniCluster cluster, JsonNode args) throws Exception {
    int n = args.path("n").asInt();
    String path = args.path("path").asText();
    while (located(cluster, path).getLocatedBlocks().stream().anyMatch(b -> b.getLocations().length != n)) {
      Thread.sleep(20);
    }
    return null;
  }

  /** Moves a replica as the balancer does: the target copies it from the source, and the source's is dropped. */
  private static Object move(MiniCluster cluster, JsonNode args) throws Exception {
    String path = args.path("path").asText();
    int block = args.path("block").asInt();
    LocatedBlock located = located(cluster, path).get(block);
    DatanodeInfo from = info(cluster, args.path("from").asInt());
    DatanodeInfo to = info(cluster, args.path("to").asInt());
    ExtendedBlock moved = located.getBlock();
    if (!DFSTestUtil.replaceBlock(moved, from, from, to)) {
      throw new IOException("the DataNode refused the move: see the log");
    }
    int want = args.path("to").asInt();
    int gone = args.path("from").asInt();
    while (true) {
      List<Integer> nodes = new ArrayList<>();
      for (DatanodeInfo node : located(cluster, path).get(block).getLocations()) {
        nodes.add(cluster.place(node));
      }
      if (nodes.contains(want) && !nodes.contains(gone)) {
        return null;
      }
      Thread.sleep(20);
    }
  }

  private static DatanodeInfo info(MiniCluster cluster, int dn) throws IOException {
    return cluster.dfs.getNamesystem(cluster.active()).getBlockManager().getDatanodeManager()
        .getDatanode(cluster.nodes.get(dn).id().getDatanodeUuid());
  }
}
