import java.io.File;
import java.nio.file.*;
import java.security.*;
import java.util.*;
import javax.security.auth.Subject;
import javax.security.auth.kerberos.*;
import javax.security.auth.login.*;
import com.sun.security.jgss.*;
import org.apache.hadoop.minikdc.MiniKdc;
import org.ietf.jgss.*;

/**
 * Writes contexts between the JDK's own Kerberos initiator and acceptor as JSON, with their keys and wrap tokens.
 * Needs hadoop-minikdc on the class path: java -cp ... GssVectors.java > gss.json
 */
public class GssVectors {
  static String hex(byte[] b) { StringBuilder s = new StringBuilder(); for (byte x : b) s.append(String.format("%02x", x)); return s.toString(); }

  static Subject login(String principal, File keytab, boolean initiator) throws Exception {
    Map<String, String> o = new HashMap<>();
    o.put("keyTab", keytab.getPath()); o.put("principal", principal); o.put("useKeyTab", "true"); o.put("storeKey", "true");
    o.put("doNotPrompt", "true"); o.put("isInitiator", Boolean.toString(initiator)); o.put("refreshKrb5Config", "true");
    LoginContext c = new LoginContext("x", new Subject(), null, new Configuration() {
      public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
        return new AppConfigurationEntry[] {new AppConfigurationEntry("com.sun.security.auth.module.Krb5LoginModule", AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, o)};
      }
    });
    c.login();
    return c.getSubject();
  }

  static <T> T as(Subject s, PrivilegedExceptionAction<T> a) throws Exception { return Subject.doAs(s, a); }

  public static void main(String[] a) throws Exception {
    try { run(a); } catch (Throwable t) { t.printStackTrace(); System.exit(1); }
  }

  static void run(String[] a) throws Exception {
    File dir = Files.createTempDirectory("kdc").toFile();
    Properties p = MiniKdc.createConf();
    MiniKdc kdc = new MiniKdc(p, dir);
    kdc.start();
    File keytab = new File(dir, "k");
    kdc.createPrincipal(keytab, "trainer", "nn/localhost");
    GSSManager m = GSSManager.getInstance();
    Oid krb5 = new Oid("1.2.840.113554.1.2.2");
    StringBuilder out = new StringBuilder("[\n");
    System.setProperty("java.security.krb5.conf", kdc.getKrb5conf().getPath());
    Subject client = login("trainer@" + kdc.getRealm(), keytab, true), server = login("nn/localhost@" + kdc.getRealm(), keytab, false);
    GSSContext ini = as(client, () -> {
      GSSContext x = m.createContext(m.createName("nn/localhost@" + kdc.getRealm(), new Oid("1.2.840.113554.1.2.2.1")), krb5, null, GSSContext.INDEFINITE_LIFETIME);
      x.requestMutualAuth(true); x.requestConf(true); x.requestInteg(true); x.requestReplayDet(true); x.requestSequenceDet(true);
      return x;
    });
    GSSContext acc = as(server, () -> m.createContext((GSSCredential) null));
    byte[] req = as(client, () -> ini.initSecContext(new byte[0], 0, 0));
    byte[] rep = as(server, () -> acc.acceptSecContext(req, 0, req.length));
    as(client, () -> ini.initSecContext(rep, 0, rep.length));
    if (!ini.isEstablished() || !acc.isEstablished()) throw new Exception();
    KerberosTicket ticket = null;
    for (KerberosTicket k : client.getPrivateCredentials(KerberosTicket.class)) if (k.getServer().getName().startsWith("nn/")) ticket = k;
    EncryptionKey key = (EncryptionKey) ((ExtendedGSSContext) ini).inquireSecContext(InquireType.KRB5_GET_SESSION_KEY_EX);
    out.append(String.format(" {\"session\":{\"type\":%d,\"key\":\"%s\"},\"context\":{\"type\":%d,\"key\":\"%s\"},\n  \"request\":\"%s\",\n  \"reply\":\"%s\",\n  \"messages\":[",
      ticket.getSessionKeyType(), hex(ticket.getSessionKey().getEncoded()), key.getKeyType(), hex(key.getEncoded()), hex(req), hex(rep)));
    int[] sizes = {4, 0, 1, 15, 16, 17, 100};
    for (int i = 0; i < sizes.length * 2; i++) {
      byte[] plain = new byte[sizes[i / 2]];
      for (int j = 0; j < plain.length; j++) plain[j] = (byte) (i + 3 * j);
      boolean sealed = i % 2 == 1;
      byte[] up = ini.wrap(plain, 0, plain.length, new MessageProp(0, sealed)), down = acc.wrap(plain, 0, plain.length, new MessageProp(0, sealed));
      if (!Arrays.equals(acc.unwrap(up, 0, up.length, new MessageProp(0, false)), plain)) throw new Exception();
      out.append(i == 0 ? "" : ",").append(String.format("\n   {\"sealed\":%b,\"plain\":\"%s\",\"up\":\"%s\",\"down\":\"%s\"}", sealed, hex(plain), hex(up), hex(down)));
    }
    Files.writeString(Path.of(a[0]), out + "]}\n]\n");
    System.exit(0);
  }
}
