package hdfstest;

import java.io.File;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.impl.FsVolumeImpl;

/** A DataNode in this process. */
final class InProcessNode implements Node {
  private final MiniDFSCluster dfs;
  private final long capacity;
  private DataNode node;
  private DatanodeID id;
  private MiniDFSCluster.DataNodeProperties stopped;
  private HeldPorts ports;

  /** capacity is the bytes of each of its folders; 0: what the disk has. */
  InProcessNode(MiniDFSCluster dfs, DataNode node, long capacity) {
    this.dfs = dfs;
    this.capacity = capacity;
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
      size();
    }
  }

  /** Gives the folders their size again: MiniDFSCluster gives those of another DataNode, since the list has closed up. */
  private void size() throws IOException {
    if (capacity == 0) {
      return;
    }
    try (FsDatasetSpi.FsVolumeReferences volumes = node.getFSDataset().getFsVolumeReferences()) {
      for (FsVolumeSpi volume : volumes) {
        ((FsVolumeImpl) volume).setCapacityForTesting(capacity);
      }
    }
  }
}
