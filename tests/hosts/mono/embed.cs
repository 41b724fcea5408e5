// What embed.c loads: it is called by C, calls C, and keeps what C gave it.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;

public class Account {
    static readonly Dictionary<string, Account> all = new Dictionary<string, Account>();
    public static int finalized;
    readonly string owner;
    readonly List<object> log = new List<object>();
    public int balance;

    public Account(string owner) { this.owner = owner; }
    ~Account() { finalized++; }

    [MethodImpl(MethodImplOptions.InternalCall)]
    static extern string Rate(string owner, object[] history);

    public static void Open(string owner) { all[owner] = new Account(owner); }

    public static string Deposit(string owner, int amount) {
        var account = all[owner];
        if (amount < 0) throw new ArgumentException("negative: " + amount);
        account.balance += amount;
        account.log.Add(amount % 2 == 0 ? (object)amount : amount.ToString());
        return account.owner + ": " + account.balance + " " + Rate(owner, account.log.ToArray());
    }

    public static void Collect() {
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }

    public static int Count() { return all.Count; }

    public static int Sum(object[] values) {
        int sum = 0;
        foreach (object value in values) sum += value is string ? ((string)value).Length : (int)value;
        return sum;
    }
}
