// Peer: what the C# programs of this folder share: which Mono they run on.
//
// Invariant: never fails; a runtime that does not tell its name is called by its class library's version.
using System;
using System.Reflection;

static class Peer
{
    public static string Version()
    {
        var runtime = Type.GetType("Mono.Runtime");
        var name = runtime == null ? null : runtime.GetMethod("GetDisplayName", BindingFlags.NonPublic | BindingFlags.Static);
        return name == null ? Environment.Version.ToString() : "Mono " + name.Invoke(null, null);
    }
}
