package hdfstest

import (
	"bytes"
	"encoding/xml"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// nameservice is the name of a cluster with two NameNodes; MiniDFSCluster chooses it.
const nameservice = "minidfs-ns"

// ConfDir returns a folder with core-site.xml and hdfs-site.xml for clients, as HADOOP_CONF_DIR names it.
func (s *Server) ConfDir() string { return filepath.Join(s.dir, "conf") }

// Getenv is an environment in which HADOOP_CONF_DIR, the user, and under Kerberos KRB5_CONFIG are set for this cluster,
// and nothing else.
func (s *Server) Getenv(key string) string {
	switch key {
	case "HADOOP_CONF_DIR":
		return s.ConfDir()
	case "HADOOP_USER_NAME":
		return User
	case "KRB5_CONFIG":
		if s.desc.Kerberos != nil {
			return s.desc.Kerberos.Krb5Conf
		}
	}
	return ""
}

func (s *Server) writeConf() error {
	if err := os.MkdirAll(s.ConfDir(), 0o755); err != nil {
		return err
	}
	core := map[string]string{"fs.defaultFS": s.URL()}
	hdfs := s.nameNodeSettings()
	hdfs["dfs.replication"] = "3"
	hdfs["dfs.blocksize"] = "1m"
	if k := s.desc.Kerberos; k != nil {
		core["hadoop.security.authentication"] = "kerberos"
		core["hadoop.security.authorization"] = "true"
		core["hadoop.rpc.protection"] = s.options.Kerberos
		hdfs["dfs.data.transfer.protection"] = s.options.Kerberos
		hdfs["dfs.namenode.kerberos.principal"] = k.Principal
		hdfs["dfs.datanode.kerberos.principal"] = k.Principal
		hdfs["dfs.block.access.token.enable"] = "true"
	}
	if s.options.Encrypt {
		hdfs["dfs.encrypt.data.transfer"] = "true"
	}
	for key, value := range s.options.Site {
		delete(core, key)
		if strings.HasPrefix(key, "dfs.") {
			hdfs[key] = value
		} else {
			core[key] = value
		}
	}
	return writeSites(s.ConfDir(), map[string]map[string]string{"core-site.xml": core, "hdfs-site.xml": hdfs})
}

// nameNodeSettings say where the NameNodes are.
func (s *Server) nameNodeSettings() map[string]string {
	nodes := s.desc.NameNodes
	if len(nodes) == 1 {
		return map[string]string{"dfs.namenode.http-address": nodes[0].HTTP}
	}
	site := map[string]string{
		"dfs.nameservices": nameservice,
		"dfs.client.failover.proxy.provider." + nameservice: "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
	}
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.ID)
		site["dfs.namenode.rpc-address."+nameservice+"."+n.ID] = n.Addr
		site["dfs.namenode.http-address."+nameservice+"."+n.ID] = n.HTTP
	}
	site["dfs.ha.namenodes."+nameservice] = strings.Join(ids, ",")
	return site
}

func writeSites(dir string, sites map[string]map[string]string) error {
	for name, site := range sites {
		if err := os.WriteFile(filepath.Join(dir, name), siteXML(site), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func siteXML(site map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\"?>\n<configuration>\n")
	for _, key := range slices.Sorted(maps.Keys(site)) {
		b.WriteString("  <property><name>")
		xml.EscapeText(&b, []byte(key))
		b.WriteString("</name><value>")
		xml.EscapeText(&b, []byte(site[key]))
		b.WriteString("</value></property>\n")
	}
	b.WriteString("</configuration>\n")
	return b.Bytes()
}
