import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.hadoop.hdfs.security.token.delegation.DelegationTokenIdentifier;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.token.Token;

/** Writes credential files as Hadoop does: java -cp (hadoop-common, hadoop-hdfs-client and what they need) TokenFiles.java FOLDER */
public class TokenFiles {
  public static void main(String[] a) throws Exception {
    DelegationTokenIdentifier id = new DelegationTokenIdentifier(new Text("alice"), new Text("yarn"), new Text("hive"));
    id.setIssueDate(1700000000123L); id.setMaxDate(1700604800123L); id.setSequenceNumber(300); id.setMasterKeyId(7);
    Credentials c = new Credentials();
    c.addToken(new Text("ha-hdfs:lake"), new Token<>(id.getBytes(), "the password of lake".getBytes(), DelegationTokenIdentifier.HDFS_DELEGATION_KIND, new Text("ha-hdfs:lake")));
    byte[] big = new byte[300]; Arrays.fill(big, (byte) 0x90);
    c.addToken(new Text("gr\u00fcn"), new Token<>(big, new byte[0], new Text("OTHER_KIND"), new Text("10.0.0.1:8032")));
    c.addSecretKey(new Text("key"), "a secret key".getBytes());
    write(c, Path.of(a[0], "writable.hdts"), Credentials.SerializedFormat.WRITABLE);
    write(c, Path.of(a[0], "protobuf.hdts"), Credentials.SerializedFormat.PROTOBUF);
    write(new Credentials(), Path.of(a[0], "empty-writable.hdts"), Credentials.SerializedFormat.WRITABLE);
    write(new Credentials(), Path.of(a[0], "empty-protobuf.hdts"), Credentials.SerializedFormat.PROTOBUF);
  }

  static void write(Credentials c, Path path, Credentials.SerializedFormat f) throws IOException {
    ByteArrayOutputStream b = new ByteArrayOutputStream();
    c.writeTokenStorageToStream(new DataOutputStream(b), f);
    Files.write(path, b.toByteArray());
  }
}
