package hdfstest;

import java.io.File;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.security.UserGroupInformation;

/** A key distribution centre with a service principal for the daemons and a keytab for each user. */
final class Kerberos {
  static final List<String> USERS = List.of("trainer", "intruder", Settings.PROXY_USER);

  final String realm;
  final String principal;
  final File krb5Conf;
  final Map<String, File> keytabs = new LinkedHashMap<>();
  private final Configuration conf;

  Kerberos(Spec spec, File dir, Configuration conf) throws Exception {
    File home = new File(dir, "kdc");
    home.mkdirs();
    Properties properties = MiniKdc.createConf();
    if (spec.ticketSeconds > 0) {
      properties.setProperty(MiniKdc.MAX_TICKET_LIFETIME, String.valueOf(spec.ticketSeconds * 1000L));
    }
    MiniKdc kdc = new MiniKdc(properties, home);
    kdc.start();
    this.conf = conf;
    realm = kdc.getRealm();
    principal = "hdfs/localhost@" + realm;
    krb5Conf = kdc.getKrb5conf();
    keytab(kdc, home, "hdfs", "hdfs/localhost", "HTTP/localhost");
    for (String user : USERS) {
      keytab(kdc, home, user, user);
    }
    configure(spec.kerberos);
  }

  private void keytab(MiniKdc kdc, File home, String name, String... principals) throws Exception {
    File file = new File(home, name + ".keytab");
    kdc.createPrincipal(file, principals);
    keytabs.put(name, file);
  }

  private void configure(String protection) {
    String keytab = keytabs.get("hdfs").getPath();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.set("hadoop.security.authorization", "true");
    conf.set("hadoop.rpc.protection", protection);
    conf.set("dfs.data.transfer.protection", protection);
    for (String daemon : List.of("namenode", "datanode")) {
      conf.set("dfs." + daemon + ".kerberos.principal", principal);
      conf.set("dfs." + daemon + ".keytab.file", keytab);
    }
    conf.set("dfs.web.authentication.kerberos.principal", "HTTP/localhost@" + realm);
    conf.set("dfs.web.authentication.kerberos.keytab", keytab);
    conf.set("dfs.block.access.token.enable", "true");
    conf.set("ignore.secure.ports.for.testing", "true");
  }

  /** Makes this process the daemons' user. */
  void login() throws Exception {
    UserGroupInformation.setConfiguration(conf);
    UserGroupInformation.loginUserFromKeytab(principal, keytabs.get("hdfs").getPath());
  }

  UserGroupInformation user(String name) throws Exception {
    return UserGroupInformation.loginUserFromKeytabAndReturnUGI(name + "@" + realm, keytabs.get(name).getPath());
  }

  Map<String, Object> describe() {
    Map<String, Object> d = new LinkedHashMap<>();
    d.put("realm", realm);
    d.put("principal", principal);
    d.put("krb5Conf", krb5Conf.getPath());
    Map<String, String> files = new LinkedHashMap<>();
    keytabs.forEach((name, file) -> files.put(name, file.getPath()));
    d.put("keytabs", files);
    return d;
  }
}
