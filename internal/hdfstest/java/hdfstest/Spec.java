package hdfstest;

import java.util.List;
import java.util.Map;

/** What a cluster is made of: the first line that the parent sends. */
final class Spec {
  /** The folder that the cluster owns: it is removed when the cluster ends. */
  public String dir;

  public int dataNodes;
  public int nameNodes;
  public int storages;

  /** Types of the folders of blocks, for DataNodes in turn; empty: all are disks. */
  public List<List<String>> storageTypes = List.of();

  /** Bytes of each folder of blocks, for DataNodes in turn; empty: what the disk has. */
  public List<Long> capacities = List.of();

  /** Rack and host name of each DataNode. */
  public List<String> racks = List.of();
  public List<String> hosts = List.of();

  /** "" or the level of protection: authentication, integrity or privacy. */
  public String kerberos = "";

  /** Life of a Kerberos ticket in seconds; 0: a day. */
  public int ticketSeconds;

  /** Encrypt data transfer with keys of the NameNode. */
  public boolean encrypt;

  /** The command that starts a JVM, for DataNodes in processes of their own; empty: all in this JVM. */
  public List<String> java = List.of();

  /** Size of each DataNode's disk, for DataNodes in processes of their own; 0: no bound. */
  public long diskBytes;

  /** Settings of Hadoop, over all others. */
  public Map<String, String> site = Map.of();
}
