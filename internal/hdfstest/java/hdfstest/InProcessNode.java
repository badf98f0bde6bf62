package hdfstest;

import java.io.File;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/** A DataNode in this process. */
final class InProcessNode implements Node {
  private final MiniDFSCluster dfs;
  private DataNode node;
  private DatanodeID id;
  private MiniDFSCluster.DataNodeProperties stopped;
  private HeldPorts ports;

  InProcessNode(MiniDFSCluster dfs, DataNode node) {
    this.dfs = dfs;
    this.node = node;
    this.id = node.getDatanodeId();
  }

  @Override
  public DatanodeID id() {
    return id;
  }

  @Override
  public long pid() {
    return ProcessHandle.current().pid();
  }

  @Override
  public List<File> folders() {
    return Node.folders(node.getConf());
  }

  @Override
  public boolean running() {
    return stopped == null;
  }

  @Override
  public void kill() throws Exception {
    synchronized (dfs) {
      if (running()) {
        stopped = dfs.stopDataNode(dfs.getDataNodes().indexOf(node)); // the list closes up when one leaves
        ports = new HeldPorts(id.getXferPort(), id.getIpcPort());
      }
    }
  }

  @Override
  public void leave() throws Exception {
    node.shutdownDatanode(true);
    while (Thread.getAllStackTraces().keySet().stream().anyMatch(thread -> thread.getName().equals("Async datanode shutdown thread"))) {
      Thread.sleep(20);
    }
    kill(); // what is left of it
  }

  @Override
  public void start(boolean samePort) throws Exception {
    synchronized (dfs) {
      if (running()) {
        throw new IOException("the DataNode runs already");
      }
      if (samePort) {
        ports.close();
      }
      dfs.restartDataNode(stopped, samePort);
      ports.close();
      stopped = null;
      List<DataNode> all = dfs.getDataNodes();
      node = all.get(all.size() - 1);
      while (node.getDatanodeId() == null) { // it has none until it has spoken with a NameNode
        Thread.sleep(20);
      }
      id = node.getDatanodeId();
    }
  }
}
