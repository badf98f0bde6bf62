package hdfstest;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.security.PrivilegedExceptionAction;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.net.StaticMapping;
import org.apache.hadoop.security.UserGroupInformation;

/** The cluster: NameNodes in this process, DataNodes here or in processes of their own. */
final class MiniCluster {
  static final String NAMESERVICE = "minidfs-ns";
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  final Spec spec;
  final File dir;
  final MiniDFSCluster dfs;
  final Kerberos kerberos;
  final List<Node> nodes = new ArrayList<>();
  private final Configuration conf;
  private final Map<String, DistributedFileSystem> clients = new ConcurrentHashMap<>();

  MiniCluster(Spec spec) throws Exception {
    this.spec = spec;
    dir = new File(spec.dir);
    conf = Settings.of(spec, dir);
    kerberos = spec.kerberos.isEmpty() ? null : new Kerberos(spec, dir, conf);
    spec.site.forEach(conf::set);
    if (kerberos != null) {
      kerberos.login();
    }
    dfs = build(ownProcesses() ? 0 : spec.dataNodes);
    if (spec.nameNodes > 1) {
      dfs.transitionToActive(0);
    }
    if (ownProcesses()) {
      startProcesses();
    } else {
      for (DataNode node : dfs.getDataNodes()) {
        List<Long> sizes = spec.capacities;
        nodes.add(new InProcessNode(dfs, node, sizes.isEmpty() ? 0 : sizes.get(nodes.size() % sizes.size())));
      }
      dfs.waitActive(); // it counts the DataNodes of its own
    }
  }

  boolean ownProcesses() {
    return !spec.java.isEmpty();
  }

  private MiniDFSCluster build(int dataNodes) throws IOException {
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(conf, new File(dir, "dfs"))
        .numDataNodes(dataNodes)
        .storagesPerDatanode(spec.storages)
        .skipFsyncForTesting(true);
    if (dataNodes == 0 && !(spec.storageTypes.isEmpty() && spec.capacities.isEmpty())) {
      throw new IllegalArgumentException("types and sizes of storage are for DataNodes in one JVM");
    }
    if (dataNodes > 0) {
      storages(builder, dataNodes);
      builder.racks(spec.racks.toArray(new String[0])).hosts(spec.hosts.toArray(new String[0]));
    }
    if (spec.nameNodes > 1) {
      builder.nnTopology(MiniDFSNNTopology.simpleHATopology(spec.nameNodes));
    }
    return builder.build();
  }

  private void storages(MiniDFSCluster.Builder builder, int dataNodes) {
    if (!spec.storageTypes.isEmpty()) {
      StorageType[][] types = new StorageType[dataNodes][];
      for (int i = 0; i < dataNodes; i++) {
        types[i] = spec.storageTypes.get(i % spec.storageTypes.size()).stream().map(StorageType::parseStorageType).toArray(StorageType[]::new);
      }
      builder.storageTypes(types);
    }
    if (!spec.capacities.isEmpty()) {
      long[][] bytes = new long[dataNodes][];
      for (int i = 0; i < dataNodes; i++) {
        bytes[i] = new long[spec.storageTypes.isEmpty() ? spec.storages : spec.storageTypes.get(i % spec.storageTypes.size()).size()];
        Arrays.fill(bytes[i], spec.capacities.get(i % spec.capacities.size()));
      }
      builder.storageCapacities(bytes);
    }
  }

  private void startProcesses() throws Exception {
    File site = new File(dir, "datanode-site.xml");
    try (OutputStream out = new FileOutputStream(site)) {
      changed(client()).writeXml(out);
    }
    List<String> java = new ArrayList<>(spec.java);
    if (kerberos != null) {
      java.add(1, "-Djava.security.krb5.conf=" + kerberos.krb5Conf);
    }
    for (int i = 0; i < spec.dataNodes; i++) {
      StaticMapping.addNodeToRack(spec.hosts.get(i), spec.racks.get(i));
      nodes.add(new OwnProcessNode(java, site, disk(i), spec.hosts.get(i)));
    }
    for (Node node : nodes) {
      ((OwnProcessNode) node).join();
      await(node);
    }
  }

  /** The folder of a DataNode with a process of its own, with a file system of a given size where that is asked for. */
  private File disk(int dn) throws Exception {
    File folder = new File(dir, "dn" + dn);
    folder.mkdirs();
    if (spec.diskBytes > 0) {
      String[] mount = {"mount", "-t", "tmpfs", "-o", "size=" + spec.diskBytes, "tmpfs", folder.getPath()};
      if (new ProcessBuilder(mount).redirectError(ProcessBuilder.Redirect.INHERIT).start().waitFor() != 0) {
        throw new IOException("no file system of " + spec.diskBytes + " bytes: see the log");
      }
    }
    return folder;
  }

  /** Waits until every running NameNode has heard of a DataNode and of its blocks. */
  void await(Node node) throws Exception {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (!known(node)) {
      if (!node.running()) {
        throw new IOException("the DataNode's process ended: see the log");
      }
      if (System.nanoTime() > end) {
        throw new IOException("a NameNode does not know the DataNode " + node.id() + " after " + PATIENCE);
      }
      Thread.sleep(20);
    }
  }

  private boolean known(Node node) throws IOException {
    for (int i = 0; i < dfs.getNumNameNodes(); i++) {
      if (dfs.getNameNode(i) == null) {
        continue;
      }
      var known = dfs.getNamesystem(i).getBlockManager().getDatanodeManager().getDatanode(node.id().getDatanodeUuid());
      if (known == null || !known.isAlive() || known.getXferPort() != node.id().getXferPort()
          || !known.checkBlockReportReceived()) {
        return false;
      }
    }
    return true;
  }

  /** The settings without those that are Hadoop's own defaults. */
  private static Configuration changed(Configuration all) {
    Configuration few = new Configuration(false);
    for (Map.Entry<String, String> entry : all) {
      String[] sources = all.getPropertySources(entry.getKey());
      if (sources == null || !sources[sources.length - 1].endsWith("-default.xml")) {
        few.set(entry.getKey(), entry.getValue());
      }
    }
    return few;
  }

  /** The settings of a client, who finds the active NameNode by the nameservice if there are two. */
  Configuration client() {
    Configuration client = new Configuration(dfs.getConfiguration(0));
    if (spec.nameNodes > 1) {
      List<String> ids = new ArrayList<>();
      for (int i = 0; i < spec.nameNodes; i++) {
        ids.add("nn" + (i + 1));
        client.set("dfs.namenode.rpc-address." + NAMESERVICE + "." + ids.get(i), rpcAddress(i));
      }
      client.unset("dfs.nameservice.id");
      client.unset("dfs.ha.namenode.id");
      client.set("dfs.nameservices", NAMESERVICE);
      client.set("dfs.ha.namenodes." + NAMESERVICE, String.join(",", ids));
      client.set("dfs.client.failover.proxy.provider." + NAMESERVICE,
          "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider");
      client.set("fs.defaultFS", "hdfs://" + NAMESERVICE);
    } else {
      client.set("fs.defaultFS", "hdfs://" + rpcAddress(0));
    }
    return client;
  }

  private String host() {
    return kerberos == null ? "127.0.0.1" : "localhost"; // the service principal has a name
  }

  private String rpcAddress(int i) {
    return host() + ":" + dfs.getNameNodePort(i);
  }

  /** Hadoop's own client as a user; "" and "hdfs" are the superuser. */
  DistributedFileSystem fs(String user) throws Exception {
    DistributedFileSystem fs = clients.get(user);
    if (fs == null) {
      fs = login(user).doAs((PrivilegedExceptionAction<DistributedFileSystem>) () ->
          (DistributedFileSystem) FileSystem.newInstance(client()));
      clients.put(user, fs);
    }
    return fs;
  }

  UserGroupInformation login(String user) throws Exception {
    if (user.isEmpty() || user.equals("hdfs")) {
      return UserGroupInformation.getLoginUser();
    }
    return kerberos == null ? UserGroupInformation.createRemoteUser(user) : kerberos.user(user);
  }

  /** The active NameNode's place in the list. */
  int active() throws IOException {
    for (int i = 0; i < dfs.getNumNameNodes(); i++) {
      NameNode node = dfs.getNameNode(i);
      if (node != null && (spec.nameNodes == 1 || node.isActiveState())) {
        return i;
      }
    }
    throw new IOException("no NameNode is active");
  }

  /** The place of a DataNode in the list, by its id. */
  int place(DatanodeID id) {
    for (int i = 0; i < nodes.size(); i++) {
      if (nodes.get(i).id().getDatanodeUuid().equals(id.getDatanodeUuid())) {
        return i;
      }
    }
    throw new IllegalStateException("unknown DataNode " + id);
  }

  Map<String, Object> describe() {
    Map<String, Object> d = new LinkedHashMap<>();
    List<Object> names = new ArrayList<>();
    for (int i = 0; i < spec.nameNodes; i++) {
      names.add(Map.of(
          "id", "nn" + (i + 1),
          "addr", rpcAddress(i),
          "http", host() + ":" + dfs.getNameNode(i).getHttpAddress().getPort()));
    }
    d.put("nameNodes", names);
    d.put("dataNodes", describeNodes());
    if (kerberos != null) {
      d.put("kerberos", kerberos.describe());
    }
    return d;
  }

  List<Object> describeNodes() {
    List<Object> all = new ArrayList<>();
    for (int i = 0; i < nodes.size(); i++) {
      Node node = nodes.get(i);
      Map<String, Object> n = new LinkedHashMap<>();
      n.put("uuid", node.id().getDatanodeUuid());
      n.put("addr", node.id().getXferAddr());
      n.put("host", node.id().getHostName());
      n.put("rack", spec.racks.get(i));
      n.put("pid", node.pid());
      n.put("running", node.running());
      n.put("folders", node.folders().stream().map(File::getPath).toList());
      all.add(n);
    }
    return all;
  }
}
