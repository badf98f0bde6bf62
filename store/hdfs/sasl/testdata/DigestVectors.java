import java.util.*;
import javax.security.auth.callback.*;
import javax.security.sasl.*;

/** Writes exchanges between the JDK's own DIGEST-MD5 client and server as JSON: java DigestVectors.java > digest.json */
public class DigestVectors {
  static String hex(byte[] b) { StringBuilder s = new StringBuilder(); for (byte x : b) s.append(String.format("%02x", x)); return s.toString(); }

  static CallbackHandler handler(String user, String password, String realm) {
    return callbacks -> {
      for (Callback c : callbacks) {
        if (c instanceof NameCallback) ((NameCallback) c).setName(user);
        else if (c instanceof PasswordCallback) ((PasswordCallback) c).setPassword(password.toCharArray());
        else if (c instanceof RealmCallback) ((RealmCallback) c).setText(realm != null ? realm : ((RealmCallback) c).getDefaultText());
        else if (c instanceof AuthorizeCallback) ((AuthorizeCallback) c).setAuthorized(true);
        else throw new UnsupportedCallbackException(c);
      }
    };
  }

  public static void main(String[] a) throws Exception {
    String[][] cases = { // protocol, server, realm, user, password, qop, cipher
      {"hdfs", "0", "0", "QUJDREVGRw==", "c2VjcmV0IHNlY3JldA==", "auth", ""},
      {"", "default", "default", "QUJDREVGRw==", "c2VjcmV0IHNlY3JldA==", "auth-int", ""},
      {"hdfs", "0", "0", "1234 BP-1 bm9uY2U=", "a2V5", "auth-conf", "rc4"},
      {"hdfs", "0", "0", "1234 BP-1 bm9uY2U=", "a2V5", "auth-conf", "3des"},
      {"", "default", "default", "us\"er\\", "p\"a:ss", "auth-int", ""},
      {"", "default", "gr\u00fcn", "J\u00fcrgen", "h\u00e4\u00dflich", "auth", ""},
      {"", "default", "default", "\u30e6\u30fc\u30b6", "\u79d8\u5bc6", "auth-conf", "rc4"},
    };
    StringBuilder o = new StringBuilder("[\n");
    for (int n = 0; n < cases.length; n++) {
      String[] c = cases[n];
      Map<String, String> p = new HashMap<>();
      p.put(Sasl.QOP, c[5]); p.put(Sasl.SERVER_AUTH, "true");
      if (!c[6].isEmpty()) p.put("com.sun.security.sasl.digest.cipher", c[6]);
      if (!c[2].equals(c[1])) p.put("com.sun.security.sasl.digest.realm", c[2]);
      SaslServer s = Sasl.createSaslServer("DIGEST-MD5", c[0], c[1], p, handler(c[3], c[4], c[2]));
      SaslClient cl = Sasl.createSaslClient(new String[] {"DIGEST-MD5"}, null, c[0], c[1], p, handler(c[3], c[4], null));
      byte[] challenge = s.evaluateResponse(new byte[0]);
      byte[] response = cl.evaluateChallenge(challenge);
      byte[] rspauth = s.evaluateResponse(response);
      cl.evaluateChallenge(rspauth);
      o.append(n == 0 ? "" : ",\n").append(String.format(" {\"protocol\":\"%s\",\"server\":\"%s\",\"user\":\"%s\",\"password\":\"%s\",\"qop\":\"%s\",\"cipher\":\"%s\",\n  \"challenge\":\"%s\",\n  \"response\":\"%s\",\n  \"rspauth\":\"%s\"",
        c[0], c[1], hex(c[3].getBytes("UTF-8")), hex(c[4].getBytes("UTF-8")), c[5], c[6], hex(challenge), hex(response), hex(rspauth)));
      if (!c[5].equals("auth")) {
        StringBuilder w = new StringBuilder();
        int[] sizes = {1, 0, 5, 6, 7, 8, 13, 14, 16, 200};
        for (int k = 0; k < sizes.length; k++) {
          byte[] m = new byte[sizes[k]];
          for (int i = 0; i < m.length; i++) m[i] = (byte) (i * 7 + k);
          if (m.length == 0) continue;
          byte[] up = cl.wrap(m, 0, m.length), down = s.wrap(m, 0, m.length);
          if (!Arrays.equals(s.unwrap(up, 0, up.length), m)) throw new Exception();
          w.append(w.length() == 0 ? "" : ",\n").append(String.format("   {\"plain\":\"%s\",\"up\":\"%s\",\"down\":\"%s\"}", hex(m), hex(up), hex(down)));
        }
        o.append(",\n  \"messages\":[\n" + w + "]");
      }
      o.append("}");
    }
    System.out.println(o.append("\n]"));
  }
}
