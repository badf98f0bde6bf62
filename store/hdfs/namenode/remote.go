package namenode

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// ErrCredentials marks a token that the NameNode does not accept: expired, cancelled or forged. A new token
// may help, so it is told from other refusals.
var ErrCredentials = errors.New("credentials are not accepted")

// RemoteError is an exception that a NameNode answered with. It matches, by errors.Is, the errors of package
// store, io/fs and syscall that mean the same, so that store.ClassOf knows it.
type RemoteError struct {
	// Class is the exception's Java class, with its package.
	Class string
	// Cause is the class of the exception that this one carries; "" for none.
	Cause string
	// Message is its text, without class names and stack.
	Message string
	// NameNode is the address that answered; Method what was called.
	NameNode, Method string

	detail hproto.RpcResponseHeader_Detail
}

const noSuchMethod = "org.apache.hadoop.ipc.RpcNoSuchMethodException"

var (
	// carried finds the class of an exception at the beginning of a message.
	carried = regexp.MustCompile(`^((?:[a-z0-9_]+\.)+[A-Z][\w$]*(?:Exception|Error|InvalidToken)): ?`)
	// stack is where a stack trace begins.
	stack = regexp.MustCompile(`(?:^|\n)\s+at [\w.$]+[(/]|\n\t?\.\.\. \d+ more`)
)

// maxMessage bounds the text of an exception, in bytes.
const maxMessage = 4 << 10

func newRemoteError(head *hproto.RpcResponseHeader, nameNode, method string) *RemoteError {
	e := &RemoteError{Class: head.GetExceptionClassName(), NameNode: nameNode, Method: method, detail: head.GetErrorDetail()}
	e.Message = head.GetErrorMsg()
	if at := stack.FindStringIndex(e.Message); at != nil {
		e.Message = e.Message[:at[0]]
	}
	if len(e.Message) > maxMessage {
		e.Message = e.Message[:maxMessage] + "..."
	}
	e.Message = strings.TrimSpace(strings.ToValidUTF8(e.Message, "?"))
	for e.Cause == "" {
		m := carried.FindStringSubmatch(e.Message)
		if m == nil {
			break
		}
		e.Message = e.Message[len(m[0]):]
		if m[1] != e.Class {
			e.Cause = m[1]
		}
	}
	if e.Class == "" && e.noSuchMethod() {
		e.Class = noSuchMethod
	}
	return e
}

// Error shows class, text, place and, where one is known, what to do.
func (e *RemoteError) Error() string {
	class := simple(e.Class)
	if e.Cause != "" {
		class += " of " + simple(e.Cause)
	}
	text := fmt.Sprintf("%s at %s: %s: %s", e.Method, e.NameNode, class, e.Message)
	if meaning := e.meaning(); meaning != nil && meaning.hint != "" {
		text += ": " + meaning.hint
	}
	return text
}

func simple(class string) string { return class[strings.LastIndexByte(class, '.')+1:] }

// Is reports whether the exception means what target says.
func (e *RemoteError) Is(target error) bool {
	if target == errors.ErrUnsupported && e.noSuchMethod() {
		return true
	}
	m := e.meaning()
	if m == nil {
		return false
	}
	for _, is := range m.is {
		if errors.Is(is, target) {
			return true
		}
	}
	return false
}

func (e *RemoteError) noSuchMethod() bool {
	return e.Class == noSuchMethod || e.detail == hproto.RpcResponseHeader_ERROR_NO_SUCH_METHOD
}

// cause says what the exception means for the call's next attempt. The class counts, not the status: an
// overloaded server sends these as fatal errors too.
func (e *RemoteError) cause() cause {
	switch e.Class {
	case ipc + "StandbyException", ipc + "ObserverRetryOnActiveException":
		return causeStandby
	case ipc + "RetriableException":
		return causeBusy
	case saslException:
		// Two clients with one ticket in the same microsecond: the server took the second for a replay.
		if strings.Contains(e.Message, "Request is a replay") {
			return causeBusy
		}
	}
	return causeAnswer
}

// meaning finds the row of the exception; the exception it carries is asked first, since it says more.
func (e *RemoteError) meaning() *meaning {
	for _, class := range []string{e.Cause, e.Class} {
		if m, ok := meanings[class]; ok {
			return &m
		}
	}
	return nil
}

// meaning is what an exception matches, and what to tell the user.
type meaning struct {
	is   []error
	hint string
}

const (
	ipc      = "org.apache.hadoop.ipc."
	hadoopFS = "org.apache.hadoop.fs."
	protocol = "org.apache.hadoop.hdfs.protocol."
	server   = "org.apache.hadoop.hdfs.server.namenode."
	security = "org.apache.hadoop.security."

	saslException = "javax.security.sasl.SaslException"
)

func means(is ...error) meaning { return meaning{is: is} }

const (
	noLinks = "symbolic links are not followed: give the path of what it points to"
	noTrust = "the NameNode does not believe the ticket or token: compare the clocks of both hosts (Kerberos allows 5 minutes), and see its log for the reason"
	noQuota = "free some of the folder's quota or ask for more"
)

var meanings = map[string]meaning{
	"java.io.FileNotFoundException":               means(fs.ErrNotExist),
	hadoopFS + "PathNotFoundException":            means(fs.ErrNotExist),
	hadoopFS + "FileAlreadyExistsException":       means(fs.ErrExist),
	protocol + "AlreadyBeingCreatedException":     means(fs.ErrExist),
	hadoopFS + "ParentNotDirectoryException":      means(syscall.ENOTDIR),
	hadoopFS + "PathIsNotDirectoryException":      means(syscall.ENOTDIR),
	hadoopFS + "PathIsDirectoryException":         means(syscall.EISDIR),
	hadoopFS + "PathIsNotEmptyDirectoryException": means(syscall.ENOTEMPTY),
	hadoopFS + "InvalidPathException":             means(store.ErrName),
	hadoopFS + "UnresolvedLinkException":          {[]error{errors.ErrUnsupported}, noLinks},
	protocol + "UnresolvedPathException":          {[]error{errors.ErrUnsupported}, noLinks},
	security + "AccessControlException":           means(fs.ErrPermission),
	protocol + "SnapshotAccessControlException":   means(fs.ErrPermission),
	security + "authorize.AuthorizationException": means(fs.ErrPermission),
	security + "token.SecretManager$InvalidToken": {[]error{fs.ErrPermission, ErrCredentials}, "get a new token"},
	saslException:                                                    {[]error{fs.ErrPermission}, noTrust},
	protocol + "QuotaExceededException":                              {[]error{syscall.EDQUOT}, noQuota},
	protocol + "DSQuotaExceededException":                            {[]error{syscall.EDQUOT}, noQuota},
	protocol + "NSQuotaExceededException":                            {[]error{syscall.EDQUOT}, noQuota},
	protocol + "QuotaByStorageTypeExceededException":                 {[]error{syscall.EDQUOT}, noQuota},
	protocol + "FSLimitException$PathComponentTooLongException":      means(syscall.ENAMETOOLONG),
	protocol + "FSLimitException$MaxDirectoryItemsExceededException": means(syscall.EDQUOT),
	protocol + "SnapshotException":                                   means(fs.ErrInvalid),
	protocol + "RecoveryInProgressException":                         means(store.ErrUnavailable),
	server + "SafeModeException":                                     {[]error{store.ErrUnavailable}, "the NameNode is in safe mode and takes no changes now"},
	server + "NotReplicatedYetException":                             means(store.ErrUnavailable),
	server + "LeaseExpiredException":                                 means(fs.ErrClosed),
	server + "UnsupportedActionException":                            means(errors.ErrUnsupported),
	ipc + "StandbyException":                                         means(store.ErrUnavailable),
	ipc + "RetriableException":                                       means(store.ErrUnavailable),
	ipc + "ObserverRetryOnActiveException":                           means(store.ErrUnavailable),
	"java.lang.UnsupportedOperationException":                        means(errors.ErrUnsupported),
	"java.lang.AssertionError":                                       means(fs.ErrInvalid),
	"java.lang.IllegalArgumentException":                             means(fs.ErrInvalid),
	"org.apache.hadoop.HadoopIllegalArgumentException":               means(fs.ErrInvalid),
}
