// Package hproto holds the generated messages of HDFS's protocols: the RPC layer, the NameNode's
// client protocol and the data transfer protocol. Field numbers and types are HDFS's; names are
// Hadoop's without the ending "Proto". The .proto files and their package have names of their own, so
// that a program may link another HDFS client too.
package hproto
