package hdfstest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.security.PrivilegedExceptionAction;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.security.token.block.SecurityTestUtil;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.token.Token;

/** Delegation tokens and the life of block tokens. */
final class TokenCommands {
  private TokenCommands() {}

  static void add(Map<String, Commands.Command> commands, MiniCluster cluster) {
    commands.put("delegationToken", args -> delegationToken(cluster, args));
    commands.put("cancelToken", args -> cancel(cluster, args));
    commands.put("blockTokenLife", args -> blockTokenLife(cluster, args));
  }

  /** Writes a credential file with a new delegation token of a user. */
  private static Object delegationToken(MiniCluster cluster, JsonNode args) throws Exception {
    Credentials credentials = new Credentials();
    cluster.fs(args.path("user").asText()).addDelegationTokens(args.path("renewer").asText(), credentials);
    if (credentials.numberOfTokens() == 0) {
      throw new IllegalStateException("the NameNode gave no token");
    }
    Credentials.SerializedFormat format = args.path("protobuf").asBoolean()
        ? Credentials.SerializedFormat.PROTOBUF : Credentials.SerializedFormat.WRITABLE;
    credentials.writeTokenStorageFile(new Path("file://" + args.path("local").asText()), cluster.client(), format);
    return null;
  }

  /** Cancels the tokens of a credential file, each as its owner. */
  private static Object cancel(MiniCluster cluster, JsonNode args) throws Exception {
    Credentials credentials = Credentials.readTokenStorageFile(new File(args.path("local").asText()), cluster.client());
    for (Token<?> token : credentials.getAllTokens()) {
      String owner = token.decodeIdentifier().getUser().getShortUserName();
      cluster.login(owner).doAs((PrivilegedExceptionAction<Void>) () -> {
        token.cancel(cluster.client());
        return null;
      });
    }
    return null;
  }

  /** Block tokens that are given out from now on live for so many milliseconds. */
  private static Object blockTokenLife(MiniCluster cluster, JsonNode args) throws Exception {
    for (int i = 0; i < cluster.dfs.getNumNameNodes(); i++) {
      if (cluster.dfs.getNameNode(i) != null) {
        SecurityTestUtil.setBlockTokenLifetime(
            cluster.dfs.getNamesystem(i).getBlockManager().getBlockTokenSecretManager(), args.path("ms").asLong());
      }
    }
    return null;
  }
}
