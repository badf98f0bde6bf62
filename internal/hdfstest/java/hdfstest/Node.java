package hdfstest;

import java.io.File;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/** One DataNode, known by its place in the list of the cluster, which it keeps when it ends and starts again. */
interface Node {
  /** How it is known to the NameNode now, or was last. */
  DatanodeID id();

  /** Its process; this one where it has none of its own. */
  long pid();

  /** The folders that hold its blocks. */
  List<File> folders();

  boolean running();

  /** Ends it, as a crash would where it is a process of its own. */
  void kill() throws Exception;

  /** Ends it as for a rolling upgrade: it tells those who write to it that it restarts. */
  void leave() throws Exception;

  /** Starts it again with what it has on disk. */
  void start(boolean samePort) throws Exception;

  /** Its folders of blocks by the setting dfs.datanode.data.dir. */
  static List<File> folders(Configuration conf) {
    return DataNode.getStorageLocations(conf).stream().map(location -> new File(location.getUri())).toList();
  }
}
