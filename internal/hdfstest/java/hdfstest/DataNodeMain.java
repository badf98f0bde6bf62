package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.security.UserGroupInformation;

/** One DataNode as a process, which ends with its parent. */
public final class DataNodeMain {
  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    Wire wire = new Wire(System.in, out);
    JsonNode request = wire.read();
    Configuration conf = new HdfsConfiguration();
    request.fields().forEachRemaining(e -> {
      if (e.getKey().equals("site")) {
        conf.addResource(new Path(e.getValue().asText()));
      }
    });
    request.fields().forEachRemaining(e -> conf.set(e.getKey(), e.getValue().asText()));
    Thread start = new Thread(() -> serve(wire, conf), "datanode");
    start.start();
    wire.read();
    Runtime.getRuntime().halt(0);
  }

  private static void serve(Wire wire, Configuration conf) {
    try {
      UserGroupInformation.setConfiguration(conf);
      DataNode node = DataNode.createDataNode(new String[0], conf);
      while (node.getDatanodeId() == null) { // it has none until it has spoken with a NameNode
        Thread.sleep(20);
      }
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("uuid", node.getDatanodeUuid());
      answer.put("xferPort", node.getXferPort());
      answer.put("infoPort", node.getInfoPort());
      answer.put("ipcPort", node.getIpcPort());
      wire.write(answer);
    } catch (Throwable e) {
      e.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }
}
