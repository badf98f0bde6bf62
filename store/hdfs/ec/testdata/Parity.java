import java.security.MessageDigest;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.erasurecode.CodecUtil;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;

/** Prints the SHA-256 of the parity that Hadoop's own coders make: codec, data units, parity units, digest. */
public class Parity {
  public static void main(String[] args) throws Exception {
    String[][] policies = {{"rs", "6", "3"}, {"rs", "3", "2"}, {"rs", "10", "4"}, {"xor", "2", "1"}};
    for (String[] p : policies) {
      int k = Integer.parseInt(p[1]), m = Integer.parseInt(p[2]), n = 4096;
      byte[][] data = new byte[k][n], parity = new byte[m][n];
      for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++) data[i][j] = (byte) ((j * (2 * i + 3) + j / 256 * 37 + i) ^ j >> 3);
      RawErasureEncoder e = CodecUtil.createRawEncoder(new Configuration(false), p[0], new ErasureCoderOptions(k, m));
      e.encode(data, parity);
      MessageDigest d = MessageDigest.getInstance("SHA-256");
      for (byte[] b : parity) d.update(b);
      StringBuilder hex = new StringBuilder();
      for (byte b : d.digest()) hex.append(String.format("%02x", b));
      System.out.println(p[0] + " " + k + " " + m + " " + hex);
    }
  }
}
